"""Our own files: a line of JSON for each problem, its keys sorted, in the order of the problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from skipjack.interop.miopen.json_format import line_of
from skipjack.storage import atomic_write


class Lined(Protocol):
    """Something about a problem on a device."""

    @property
    def problem(self) -> str:
        """Its key."""
        ...

    @property
    def device(self) -> str:
        """That was measured."""
        ...

    def record(self) -> Mapping[str, Any]:
        """One record for machines."""
        ...


def write_lines(path: Path, device: str, problems: Iterable[Lined]) -> None:
    """Write them for a device; if that is not the one that was measured, they say which was."""
    ordered = sorted(problems, key=lambda problem: problem.problem)
    lines = [line_of({**one.record(), **_measured(one, device)}) for one in ordered]
    atomic_write(path, "".join(f"{line}\n" for line in lines).encode())


def _measured(problem: Lined, device: str) -> dict[str, str]:
    if problem.device == device:
        return {}
    return {"device": device, "measured_on": problem.device}
