"""Version 4, in a file of its own as Alembic asks: the clock of the records, to detect that it was set meanwhile."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the columns; until a controller fills them the clock is believed."""
    op.add_column("meta", sa.Column("boot", sa.String))
    op.add_column("meta", sa.Column("apart", sa.Float))
