"""model/spec."""
