"""Version 3, in a file of its own as Alembic asks: arrays, and the array of each job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables; existing jobs are no tasks."""
    op.create_table(
        "arrays",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("base_name", sa.String, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("record", sa.LargeBinary, nullable=False),
    )
    op.create_index("arrays_newest", "arrays", ["created_at", "id"])
    op.create_index("arrays_base_name", "arrays", ["base_name", "created_at"])
    op.create_table(
        "tasks",
        sa.Column("job", sa.String, primary_key=True),
        sa.Column("array", sa.String, nullable=False),
    )
    op.create_index("tasks_of_array", "tasks", ["array", "job"])
