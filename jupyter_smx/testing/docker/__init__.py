"""testing/docker."""
