"""testing/simulation."""
