"""Forecast of a sweep: its points, builds and cost, without running anything."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from skipjack.core import Config, Status, Trial
from skipjack.errors import UsageError
from skipjack.ledger import Ledger
from skipjack.search import SearcherInterface
from skipjack.search.scripted import ScriptedSearcher
from skipjack.sweep.bench import (
    SimulatedBench,
    Workload,
    build_part,
    count_builds,
    count_rebuilds,
    fewest_builds,
    product_points,
    synthetic_run,
)
from skipjack.sweep.configs import BaseConfig, is_allowed
from skipjack.sweep.engine import (
    FINALISTS,
    RunHistory,
    SweepContext,
    SweepMeasurer,
    SweepOptions,
    SweepRequest,
    load_search,
    run_sweep,
)
from skipjack.sweep.files import ALL, SweepFile
from skipjack.sweep.session.setup import SweepSetup

# The plan of a search that does not depend on results: its points in order.

Order = Literal["fewest-builds", "listed"]

MOST_POINTS = 1_000_000
"""The most points of a plan; an endless search is detected by it."""


@dataclass(frozen=True)
class SweepPlan:
    """The points of a search that does not depend on results."""

    product: int
    """The number of points including the refused ones."""
    points: tuple[Config, ...]
    """The points to run, in this order."""
    refused: tuple[Config, ...]
    """The points that the file's rule forbids."""
    no_rebuild: tuple[str, ...] | None
    """The file's `no_rebuild`."""

    @property
    def runs(self) -> int:
        return len(self.points)

    @cached_property
    def builds(self) -> int:
        """The number of builds if every build is kept."""
        return count_builds(self.points, self.no_rebuild)

    @cached_property
    def rebuilds(self) -> int:
        """The number of builds if only the last is kept, as grid.py counts."""
        return count_rebuilds(self.points, self.no_rebuild)


def make_plan(file: SweepFile, base: BaseConfig, order: Order = "fewest-builds") -> SweepPlan:
    """The plan of a file of lists, or of a search that does not depend on results.

    ``listed`` keeps the order of declaration or of the searcher. With ``fewest-builds`` a file of
    lists is in grid.py's order, and the points of a searcher are grouped by their builds.
    """
    searcher = file.search() if file.search else None
    points: list[Config] = []
    refused: list[Config] = []
    for point in listed_points(file, searcher, order):
        (points if is_allowed(file, base, point) else refused).append(point)
    product = len(points) + len(refused)
    if searcher is not None and order == "fewest-builds":
        points = fewest_builds(points, lambda point: build_part(point, file.no_rebuild).key)
    return SweepPlan(product, tuple(points), tuple(refused), file.no_rebuild)


def is_static(file: SweepFile) -> bool:
    """Whether the points are known before anything is run."""
    return file.search is None or not file.search().is_dynamic


def listed_points(
    file: SweepFile, searcher: SearcherInterface | None, order: Order = "fewest-builds"
) -> Iterator[Config]:
    """All combinations, or the points of a search, without regard to rules."""
    if searcher is None:
        _check_size(file)
        free = file.no_rebuild if order == "fewest-builds" else ()
        yield from product_points(file.parameters, free)
        return
    if searcher.is_dynamic:
        raise UsageError(
            f"{file.path}: the search depends on results, so its points cannot be listed"
        )
    points: Iterator[Mapping[str, Any]] = searcher.generate()
    yield from map(Config.of, islice(points, MOST_POINTS))
    if next(points, None) is not None:
        raise UsageError(f"{file.path}: the search did not end after {MOST_POINTS} points")


def _check_size(file: SweepFile) -> None:
    count = math.prod(map(len, file.parameters.values()))
    if count > MOST_POINTS:
        raise UsageError(
            f"{file.path} has {count} combinations, more than {MOST_POINTS}; list fewer values or "
            "use a searcher"
        )


# Forecast of a sweep: its points, builds and cost, without running anything.
#
# A search that depends on results is simulated with the results that exist: the file's synthetic
# ones, or runs of earlier sessions. The simulation stops where a run would be needed.


@dataclass(frozen=True, slots=True)
class SweepForecast:
    """A plan, how far it reaches, and its estimated cost."""

    name: str
    plan: SweepPlan
    known: int
    """Planned runs whose results are already in the ledger."""
    run_s: float | None
    """Median seconds of earlier runs; None if there are none."""
    build_s: float | None
    builds_left: int
    """Builds needed for the points that are not known."""
    extra: int
    """Further runs for the baseline and the confirmation, if none of them is known."""
    repeats: int = 1
    at_most: int | None = None
    """The most runs of a search that depends on results; None: not known, or all are listed."""
    open_end: bool = False
    """Whether the search continues after these points, depending on their results."""
    simulated: bool = False
    """Whether the points come from synthetic results."""

    @property
    def seconds(self) -> float | None:
        """The estimated time of what remains; None if no earlier run tells."""
        if self.run_s is None:
            return None
        runs = (self.plan.runs - self.known) * self.repeats
        if runs:
            runs += self.extra
        return runs * self.run_s + self.builds_left * (self.build_s or 0.0)


def forecast_sweep(setup: SweepSetup, history: RunHistory | None) -> SweepForecast:
    """Forecast a sweep; `history` has the runs of earlier sessions."""
    dynamic = setup.load is not None or setup.searcher not in (None, ALL)
    if dynamic or not is_static(setup.file):
        return _forecast_search(setup, history)
    plan = make_plan(setup.file, setup.base, order="listed" if setup.in_order else "fewest-builds")
    if (most := setup.options.budget.trials) is not None:
        plan = replace(plan, points=plan.points[:most])
    return _with_cost(setup, plan, history)


def _with_cost(setup: SweepSetup, plan: SweepPlan, history: RunHistory | None) -> SweepForecast:
    options, file = setup.options, setup.file
    known = {p for p in plan.points if history and history.known(p, options.screen)}
    took = history.seconds() if history else []
    builds = [build for _, build in took if build]
    finals = options.confirm * (FINALISTS + bool(setup.base.where)) if plan.points else 0
    return SweepForecast(
        name=file.name,
        plan=plan,
        known=len(known),
        builds_left=count_builds([p for p in plan.points if p not in known], file.no_rebuild),
        repeats=options.repeats,
        run_s=statistics.median(run for run, _ in took) if took else None,
        build_s=statistics.median(builds) if builds else None,
        extra=finals,
    )


# searches that depend on results


def _forecast_search(setup: SweepSetup, history: RunHistory | None) -> SweepForecast:
    if setup.file.synthetic is not None and setup.load is None:
        return _simulate(setup)
    points: list[Config] = []
    if setup.file.search is not None and setup.load is None:
        points = _retrace(setup.file.search(), setup, history)
    plan = SweepPlan(len(points), tuple(points), (), setup.file.no_rebuild)
    options = setup.options
    most = options.budget.trials
    if setup.load is not None:
        search = load_search(setup.load, setup.file, setup.base, most, options.joint_screen)
        most = search.most_runs
    return replace(_with_cost(setup, plan, history), open_end=True, at_most=most)


def _retrace(
    search: SearcherInterface, setup: SweepSetup, history: RunHistory | None
) -> list[Config]:
    """The first point, and the following ones while their results are known."""
    searcher = ScriptedSearcher(search)
    points: list[Config] = []
    bench = SimulatedBench(_never, lambda point: point.key)
    measurer = SweepMeasurer(bench, history, setup.options) if history else None
    while batch := searcher.ask(1):
        points += batch
        if not is_allowed(setup.file, setup.base, batch[0]):
            searcher.tell(Trial(batch[0], Status.INFEASIBLE))
            points.pop()
            continue
        if measurer is None or not measurer.known(batch[0], setup.options.screen):
            break
        searcher.tell(measurer.measure(batch[0], "search", setup.options.screen))
    return points


def _never(*_: object) -> Any:
    raise AssertionError("a dry run runs nothing")


def _simulate(setup: SweepSetup) -> SweepForecast:
    """Simulate the whole search with the file's synthetic results."""
    points: list[Config] = []
    answer = synthetic_run(setup.file)

    def noting(point: Config, settings: Any) -> Any:
        points.append(point)
        return answer(point, settings)

    def key(point: Config) -> str:
        return build_part(point, setup.file.no_rebuild).key

    requested = setup.options
    options = SweepOptions(
        requested.objectives, requested.requirements, requested.budget, confirm=0, baseline=False
    )
    request = SweepRequest(
        setup.file,
        setup.base,
        SimulatedBench(noting, key),
        SweepContext(Workload(setup.file.name, "simulated"), "simulated", "simulated"),
        options,
        setup.searcher,
        setup.seed,
        check_names=setup.check_names,
    )
    with Ledger.in_memory() as ledger:
        run_sweep(request, ledger)
    plan = SweepPlan(len(points), tuple(points), (), setup.file.no_rebuild)
    return replace(_with_cost(setup, plan, None), simulated=True)
