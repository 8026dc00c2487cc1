"""The script that Alembic runs, under the name that Alembic requires: all versions in one transaction."""

from __future__ import annotations

from alembic import context

from jupyter_smx.controller.db.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
