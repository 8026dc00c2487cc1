"""engines/machine."""
