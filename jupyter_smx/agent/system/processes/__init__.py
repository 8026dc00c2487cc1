"""agent/system/processes."""
