"""testing/servers."""
