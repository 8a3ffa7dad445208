"""What a sweep file says, whichever of the three forms it is written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skipjack.search.scripted import SearcherInterface, Stats
from skipjack.sweep.files.blame import place

ALL = "all"
"""The search that runs every combination, in the file's order."""

Scalar = bool | int | float | str | None
"""A value of a parameter."""

IsValid = Callable[[Mapping[str, Any]], object]
"""Given the whole config (base and point): whether it may be run. Truthiness counts."""
Synthetic = Callable[[Mapping[str, Any]], Stats]
"""Given a point: what its run would say. For dry runs of searches."""


@dataclass(frozen=True, slots=True)
class SweepFile:
    """Parameters with their values, and the hooks. Nothing in it was called but what had to be."""

    path: Path
    parameters: Mapping[str, tuple[Scalar, ...]]
    """In the order of their declaration."""
    no_rebuild: tuple[str, ...] | None = None
    """Names whose change needs no new build. None: not said, so every change needs one."""
    is_valid: IsValid | None = None
    """`META_is_config_valid`, or all constraints of a TOML file together."""
    search: Callable[[], SearcherInterface] | None = None
    """`META_search_callback`, whichever of its forms; None: all combinations of the values."""
    synthetic: Synthetic | None = None
    """`META_get_synthetic`."""
    digest: str = ""
    """Of the file's bytes: what tells it from an edited one."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line on which each parameter is defined, for complaints; where known."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of a TOML file: commands and options as the command line has them, by option name."""

    @property
    def name(self) -> str:
        """How it is called in reports."""
        return self.path.stem

    def where(self, parameter: str) -> str:
        """``tune.py:12``, or the file alone where no line is known."""
        return place(self.path, self.lines.get(parameter))
