"""kernel/client."""
