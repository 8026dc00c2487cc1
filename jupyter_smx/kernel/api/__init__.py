"""kernel/api."""
