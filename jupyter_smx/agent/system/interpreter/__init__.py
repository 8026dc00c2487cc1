"""State that imports leave in an interpreter and that a job may not share with the jobs before it."""
