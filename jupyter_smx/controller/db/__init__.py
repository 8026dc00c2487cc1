"""controller/db."""
