"""Alembic's versions of the records, and how they run on the store's own connection."""
