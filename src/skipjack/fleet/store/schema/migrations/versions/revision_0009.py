"""Views of problems, of their tags and of labels, which are created with the others."""

from __future__ import annotations

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """From 0008."""
