"""kernel/options."""
