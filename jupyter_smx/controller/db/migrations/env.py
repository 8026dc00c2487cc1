"""The script that Alembic runs, under the name that Alembic requires: all versions in one transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
