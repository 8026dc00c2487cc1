"""model/results."""
