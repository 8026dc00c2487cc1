"""kernel/request."""
