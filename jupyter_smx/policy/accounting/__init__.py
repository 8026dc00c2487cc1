"""policy/accounting."""
