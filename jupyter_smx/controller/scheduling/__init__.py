"""controller/scheduling."""
