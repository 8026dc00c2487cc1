"""policy/hosts."""
