"""controller/state."""
