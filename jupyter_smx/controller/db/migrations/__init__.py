"""Migrate the tables of the store with Alembic, on the store's own connection.

Queries belong in ``jupyter_smx.controller.db``.
"""
