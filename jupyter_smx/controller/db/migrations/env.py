"""What Alembic runs: the versions, on the connection and in the transaction that the store holds."""

from __future__ import annotations

from alembic import context

from jupyter_smx.controller.db.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
