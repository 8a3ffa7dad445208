"""grid.py's dry run: each step as a line, and at the end its statistics."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skipjack.core.config import Config
from skipjack.core.trial import Status
from skipjack.errors import UsageError
from skipjack.search.scripted import Run, SearcherInterface, Stats, do_send
from skipjack.sweep.configs.base_config import is_allowed
from skipjack.sweep.files.sweep_file import Synthetic
from skipjack.sweep.grid.request import GridRequest
from skipjack.sweep.ordering import build_part
from skipjack.sweep.planning import MOST_POINTS, listed_points

MARK = "DRY-RUN:"
_CONFIG_FILE = "CONFIG.json"
"""Stands for the temporary file that a run would be given."""


@dataclass(slots=True)
class GridStatistics:
    """What a session did, as grid.py counts."""

    builds: int = 0
    cached_builds: int = 0
    runs: int = 0
    cached_runs: int = 0

    def __str__(self) -> str:
        return (
            f"builds={self.builds}, cached_builds={self.cached_builds}, "
            f"runs={self.runs}, cached_runs={self.cached_runs}"
        )


def dry_run(request: GridRequest) -> Iterator[str]:
    """The lines to print. Nothing is built, run or written; old results are looked at."""
    session = _Session(request)
    searcher = request.file.search() if request.file.search else None
    if searcher is None or not searcher.is_dynamic:
        for point in listed_points(request.file, searcher, "fewest-builds"):
            yield from session.take(point)
    elif request.file.synthetic is not None:
        yield f"{MARK} the search depends on results; it is simulated with META_get_synthetic"
        yield from _simulated(session, searcher, request.file.synthetic)
    else:
        yield (
            f"{MARK} the search depends on results, so that its points are not known beforehand; "
            "define META_get_synthetic to see it simulated"
        )
    yield str(session.statistics)


def _simulated(
    session: _Session, searcher: SearcherInterface, synthetic: Synthetic
) -> Iterator[str]:
    points = searcher.generate()
    term = do_send(points)
    for _ in range(MOST_POINTS):
        if term is None:
            return
        point = Config.of(term)
        yield from session.take(point)
        term = do_send(points, Run(dict(point), session.answer(point, synthetic)))
    raise UsageError(f"{session.path}: the search does not end after {MOST_POINTS} points")


class _Session:
    """The state of grid.py's loop: the point that was run last, whose engine lies there."""

    def __init__(self, request: GridRequest) -> None:
        self._request = request
        self._last: Mapping[str, Any] | None = None
        self._allowed = False
        self._cached: Mapping[str, Any] | None = None
        self.statistics = GridStatistics()
        self.path = request.file.path

    def take(self, point: Config) -> Iterator[str]:
        """What would be done for a point."""
        request = self._request
        self._cached = None
        self._allowed = is_allowed(request.file, request.base, point)
        if not self._allowed:
            yield f"{MARK} skip {point}: META_is_config_valid refuses it"
            return
        directory = request.result_directory(point)
        if cached := request.cached(point):
            self._cached = cached.stats
            self.statistics.cached_runs += 1
            yield f"{MARK} skip {point}: its result is in {directory}"
            return
        if self._needs_build(point):
            self.statistics.builds += 1
            if self._last is not None:
                yield from self._cool()
            yield f"{MARK} build {point}: {shlex.join(request.build_argv(_CONFIG_FILE))}"
        else:
            self.statistics.cached_builds += 1
        yield from self._cool()
        command = request.run_argv(_CONFIG_FILE, str(directory))
        yield f"{MARK} run {point}: {shlex.join(command)}"
        self.statistics.runs += 1
        self._last = point

    def answer(self, point: Config, synthetic: Synthetic) -> Stats:
        """What the search is told of the point that was taken last."""
        if not self._allowed:
            return Stats({}, Status.INFEASIBLE)
        if self._cached is not None:
            invalid = self._cached.get("result_validity") != "VALID"
            return Stats(self._cached, Status.INVALID if invalid else Status.OK)
        return synthetic(dict(point))

    def _needs_build(self, point: Config) -> bool:
        if self._last is None:
            return not self._request.options.use_existing_engine
        free = self._request.file.no_rebuild
        return free is None or build_part(point, free) != build_part(self._last, free)

    def _cool(self) -> Iterator[str]:
        options = self._request.options
        if options.temp_timeout:
            yield f"{MARK} wait for {options.cool_temp} °C, {options.temp_timeout} s at most"
