"""policy/lifecycle."""
