"""testing/fakes."""
