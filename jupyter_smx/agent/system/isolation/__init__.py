"""agent/system/isolation."""
