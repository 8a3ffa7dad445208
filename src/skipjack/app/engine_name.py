"""Where workers are, by name; the command line offers these without loading a store."""

from __future__ import annotations

from enum import StrEnum


class EngineName(StrEnum):
    """Where workers are."""

    LOCAL = "local"
    RAY = "ray"
    SLURM = "slurm"
