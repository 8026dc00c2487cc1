"""Notebook cells as asynchronous jobs on warm hosts, here or on an existing engine."""
