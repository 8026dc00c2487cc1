"""controller/api."""
