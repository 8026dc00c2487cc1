"""kernel/display."""
