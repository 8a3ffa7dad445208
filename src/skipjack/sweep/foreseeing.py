"""What a sweep would do: its points, builds and cost, without running anything.

A search that waits for results is played through with what is known already: the file's synthetic
results, or runs of an earlier sitting. It stops where it would have to run something.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Any

from skipjack.core.config import Config
from skipjack.core.trial import Status, Trial
from skipjack.ledger import Ledger
from skipjack.search.scripted import ScriptedSearcher, SearcherInterface
from skipjack.sweep.configs.base_config import is_allowed
from skipjack.sweep.confirming import FINALISTS
from skipjack.sweep.files.sweep_file import ALL
from skipjack.sweep.history import RunHistory, SweepPlace
from skipjack.sweep.load_goal import load_search
from skipjack.sweep.measuring import Measuring
from skipjack.sweep.options import SweepOptions
from skipjack.sweep.ordering import build_part, count_builds
from skipjack.sweep.planning import SweepPlan, is_static, make_plan
from skipjack.sweep.setting_up import SweepSetup
from skipjack.sweep.simulated_bench import SimulatedBench, synthetic_answer
from skipjack.sweep.sweep import SweepRequest, run_sweep
from skipjack.sweep.workload import Workload


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A plan, how far it goes, and what it may cost."""

    name: str
    plan: SweepPlan
    known: int
    """Runs of it that were made before, and are not made again."""
    run_s: float | None
    """Seconds of a run, from runs made before; None if there are none."""
    build_s: float | None
    builds_left: int
    """Builds for what is not known."""
    extra: int
    """Further runs, of the baseline and the confirmation, if nothing of them is known."""
    repeats: int = 1
    at_most: int | None = None
    """Most runs of a search that decides as it goes; None: not known, or all are listed."""
    open_end: bool = False
    """Whether the search goes on after these points, by what they give."""
    simulated: bool = False
    """Whether the points are from synthetic results."""

    @property
    def seconds(self) -> float | None:
        """What is left to do may take so long."""
        if self.run_s is None:
            return None
        runs = (self.plan.runs - self.known) * self.repeats
        if runs:
            runs += self.extra
        return runs * self.run_s + self.builds_left * (self.build_s or 0.0)


def foresee(setup: SweepSetup, history: RunHistory | None) -> Foreseen:
    """Make the plan of a sweep; `history` is of earlier sittings."""
    dynamic = setup.load is not None or setup.searcher not in (None, ALL)
    if dynamic or not is_static(setup.file):
        return _play(setup, history)
    plan = make_plan(setup.file, setup.base, order="listed" if setup.in_order else "fewest-builds")
    if (most := setup.options.budget.trials) is not None:
        plan = replace(plan, points=plan.points[:most])
    return _with_cost(setup, plan, history)


def _with_cost(setup: SweepSetup, plan: SweepPlan, history: RunHistory | None) -> Foreseen:
    options, file = setup.options, setup.file
    known = {p for p in plan.points if history and history.known(p, options.screen)}
    took = history.seconds() if history else []
    builds = [build for _, build in took if build]
    finals = options.confirm * (FINALISTS + bool(setup.base.where)) if plan.points else 0
    return Foreseen(
        name=file.name,
        plan=plan,
        known=len(known),
        builds_left=count_builds([p for p in plan.points if p not in known], file.no_rebuild),
        repeats=options.repeats,
        run_s=statistics.median(run for run, _ in took) if took else None,
        build_s=statistics.median(builds) if builds else None,
        extra=finals,
    )


# searches that wait for results


def _play(setup: SweepSetup, history: RunHistory | None) -> Foreseen:
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
    """The first point, and those that follow as long as their results are known."""
    searcher = ScriptedSearcher(search)
    points: list[Config] = []
    bench = SimulatedBench(_never, lambda point: point.key)
    measuring = Measuring(bench, history, setup.options) if history else None
    while batch := searcher.ask(1):
        points += batch
        if not is_allowed(setup.file, setup.base, batch[0]):
            searcher.tell(Trial(batch[0], Status.INFEASIBLE))
            points.pop()
            continue
        if measuring is None or not measuring.known(batch[0], setup.options.screen):
            break
        searcher.tell(measuring.measure(batch[0], "search", setup.options.screen))
    return points


def _never(*_: object) -> Any:
    raise AssertionError("a dry run runs nothing")


def _simulate(setup: SweepSetup) -> Foreseen:
    """Play the whole search with what the file makes up."""
    points: list[Config] = []
    answer = synthetic_answer(setup.file)

    def noting(point: Config, settings: Any) -> Any:
        points.append(point)
        return answer(point, settings)

    def key(point: Config) -> str:
        return build_part(point, setup.file.no_rebuild).key

    said = setup.options
    options = SweepOptions(
        said.objectives, said.requirements, said.budget, confirm=0, baseline=False
    )
    request = SweepRequest(
        setup.file,
        setup.base,
        SimulatedBench(noting, key),
        SweepPlace(Workload(setup.file.name, "simulated"), "simulated", "simulated"),
        options,
        setup.searcher,
        setup.seed,
        check_names=setup.check_names,
    )
    with Ledger.in_memory() as ledger:
        run_sweep(request, ledger)
    plan = SweepPlan(len(points), tuple(points), (), setup.file.no_rebuild)
    return replace(_with_cost(setup, plan, None), simulated=True)
