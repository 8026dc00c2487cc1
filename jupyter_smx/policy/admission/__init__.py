"""policy/admission."""
