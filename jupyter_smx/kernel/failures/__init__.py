"""kernel/failures."""
