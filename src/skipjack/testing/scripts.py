"""Scripted searchers without a benchmark: a function returns the result of each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skipjack.core import Status
from skipjack.search import Point, Run, SearcherInterface, Stats

Answer = Callable[[Point], Mapping[str, Any] | Status | bool]
"""The result of a run at a point: its stats, its failure, or whether it is ``VALID``."""


def play(searcher: SearcherInterface, answer: Answer, limit: int = 1000) -> list[Run]:
    """All runs of a search, in order; it ends after `limit` runs."""
    points = searcher.generate()
    runs: list[Run] = []
    run: Run | None = None
    while len(runs) < limit:
        try:
            point = points.send(run)
        except StopIteration:
            break
        run = Run(dict(point), _stats(answer(dict(point))))
        runs.append(run)
    return runs


def values_of(runs: list[Run], name: str) -> list[Any]:
    """The values of one parameter, run by run."""
    return [run.cross[name] for run in runs]


def _stats(said: Mapping[str, Any] | Status | bool) -> Stats:
    if isinstance(said, Status):
        return Stats({"status": said.value}, said)
    if isinstance(said, bool):
        return Stats({"result_validity": "VALID" if said else "INVALID"})
    return Stats(said)
