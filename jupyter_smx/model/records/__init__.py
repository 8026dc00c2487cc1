"""model/records."""
