"""agent/system/files."""
