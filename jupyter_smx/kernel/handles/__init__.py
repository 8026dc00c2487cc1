"""kernel/handles."""
