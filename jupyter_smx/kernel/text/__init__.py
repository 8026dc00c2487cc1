"""kernel/text."""
