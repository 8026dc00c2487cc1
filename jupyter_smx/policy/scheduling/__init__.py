"""policy/scheduling."""
