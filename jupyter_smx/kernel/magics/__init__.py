"""kernel/magics."""
