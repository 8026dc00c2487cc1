"""agent/system/resources."""
