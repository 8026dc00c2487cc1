"""Version 2, in a file of its own as Alembic asks: how long completed jobs took, by the hash of their code."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table; jobs that ended before are not in it, and are no loss."""
    op.create_table(
        "runs",
        sa.Column("job", sa.String, primary_key=True),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("wish", sa.String, nullable=False),
        sa.Column("instances", sa.String, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float, nullable=False),
    )
    op.create_index("runs_of_code", "runs", ["code", "instances", "ended_at"])
