"""controller/environments."""
