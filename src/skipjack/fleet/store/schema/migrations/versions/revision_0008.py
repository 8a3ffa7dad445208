"""Measurements in facts have named metrics with units; new views read both forms."""

from __future__ import annotations

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """From 0007."""
