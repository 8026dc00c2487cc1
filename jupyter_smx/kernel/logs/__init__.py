"""kernel/logs."""
