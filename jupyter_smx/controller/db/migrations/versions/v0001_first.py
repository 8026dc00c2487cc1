"""The first records: the epoch, jobs, clusters and events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables in an empty file."""
    meta = op.create_table(
        "meta",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("epoch", sa.Integer, nullable=False),
    )
    op.bulk_insert(meta, [{"id": 1, "epoch": 0}])
    op.create_table(
        "jobs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("base_name", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("cluster", sa.String, nullable=False),
        sa.Column("lease", sa.Integer, nullable=False),
        sa.Column("summary", sa.LargeBinary, nullable=False),
        sa.Column("record", sa.LargeBinary, nullable=False),
    )
    op.create_index("jobs_newest", "jobs", ["created_at", "id"])
    op.create_index("jobs_status_newest", "jobs", ["status", "created_at", "id"])
    op.create_index("jobs_base_name", "jobs", ["base_name", "created_at"])
    op.create_table(
        "clusters",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("lease", sa.Integer, nullable=False),
        sa.Column("record", sa.LargeBinary, nullable=False),
    )
    op.create_index("clusters_state", "clusters", ["state"])
    op.create_table(
        "events",
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
