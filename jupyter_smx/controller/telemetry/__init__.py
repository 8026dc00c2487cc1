"""controller/telemetry."""
