"""What happens to one entry of the suite: every method searches it, from nothing, and is recorded.

Distinct measurements are what counts: a schedule that one method measured is not measured again for
another, but each pays for it. Times within an entry compare with each other (`LiveRates`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from loop_suite import Entry
from skipjack.core import Config, Device, Problem, Status, Trial
from skipjack.learn.loops import LoopGame, Preset, loop_game, loop_solver
from skipjack.learn.policy import Policy, planned, propose
from skipjack.learn.rates import LiveRates, Rates
from skipjack.learn.tree import Method, SearchBudget, all_methods, method_of, play, run_search
from skipjack.native import cpu
from skipjack.search import SearchContext, create
from skipjack.settings import load_settings
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace

POLICY, ANALYTIC, GENETIC = "policy", "analytic", "genetic-schedules"
"""The searcher that is judged, the analytic order, and the search that `auto` means today."""
BEST, PROMISING, CONSTANT, BEAM = "best", "promising", "constant", "beam"
_FINALISTS = 3
"""Of a long search the fastest are timed again: the very fastest may have been lucky."""
_BATCH = 8
_SEEDS_GIVEN = 16
"""Analytic proposals that searches of schedules start from."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    budgets: tuple[int, ...] = (1, 4, 10, 30)
    seeds: int = 5
    reference: int = 300
    """Measurements of the search that says what is best."""
    beam: int = 500
    """Measurements of the beam search of the preset looptune."""
    actions: int = 30
    """The most of a path in the preset full."""
    looptune_actions: int = 10
    repeats: int = 5
    """How often what is found is timed again, each time in new processes."""
    methods: tuple[str, ...] = ()
    """Tree searches by name; all without any."""


WHOLE = Plan()
QUICK = Plan((1, 4, 10), 2, 40, 60, repeats=2, methods=("greedy-1", "beam-4", "random"))


@dataclass(frozen=True, slots=True)
class Contest:
    """Who takes part."""

    policies: Mapping[Preset, Policy]
    files: Mapping[Preset, Path]
    constants: Mapping[Preset, Sequence[str]]
    """The best constant sequence of actions of the training set."""
    plan: Plan


Record = dict[str, Any]


@contextmanager
def rates_of(threads: int, folder: Path, *, keep: bool) -> Iterator[LiveRates]:
    """Times by this machine, kept in the folder so that an interrupted entry goes on."""
    settings = replace(load_settings(), user_dir=folder)
    rates = LiveRates(cpu.detect(threads), settings, keep=keep)
    try:
        yield rates
    finally:
        rates.close()


def hold(entry: Entry, contest: Contest, rates: LiveRates) -> Record:
    """All searches of an entry. Finalists are timed again later: see `time_finalists`."""
    began = time.monotonic()
    arena = _Arena(entry, contest, rates, rates.device)
    curves = arena.curves()
    finalists = arena.alone()
    if Preset.LOOPTUNE in contest.policies:
        finalists |= arena.looptune()
    return {
        "name": entry.name,
        "group": entry.group,
        "problem": entry.problem.key,
        "threads": entry.threads,
        "vector_bytes": rates.device.vector_bytes,
        "curves": curves,
        "finalists": {name: [each.text() for each in some] for name, some in finalists.items()},
        "measured": rates.measured,
        "seconds": round(time.monotonic() - began, 1),
    }


def time_finalists(record: Record, problem: Problem, rates: Rates) -> dict[str, float | None]:
    """Seconds of every finalist by the schedule's text, timed side by side."""
    texts = list(dict.fromkeys(text for some in record["finalists"].values() for text in some))
    seconds = rates.seconds(problem, [Schedule.parse(text) for text in texts])
    return dict(zip(texts, seconds, strict=True))


class _Arena:
    """One entry."""

    def __init__(self, entry: Entry, contest: Contest, rates: Rates, device: Device) -> None:
        self.problem, self.contest, self.rates, self.device = entry.problem, contest, rates, device
        space = loop_solver(self.problem).space(self.problem, device)
        assert isinstance(space, ScheduleSpace)
        self.space = space
        self.plan = contest.plan

    def game(self, preset: Preset) -> LoopGame:
        return loop_game(self.problem, self.device, preset)

    def curves(self) -> dict[str, list[list[float | None]]]:
        """By method and seed: the best seconds after each of the budgets."""
        plan, policy = self.plan, self.contest.files[Preset.FULL]
        searchers = {POLICY: f"policy:file={policy}", GENETIC: "genetic"}
        found: dict[str, list[list[float | None]]] = {
            ANALYTIC: [self._best_of(self._promising(max(plan.budgets)))],
        }
        for name, text in searchers.items():
            found[name] = [
                [_least(self._searched(text, seed, budget).values()) for budget in plan.budgets]
                for seed in range(plan.seeds)
            ]
        game = self.game(Preset.FULL)
        for method in self._methods():
            found[method.name] = [
                self._tree(game, method, seed, plan.actions, max(plan.budgets))
                for seed in range(plan.seeds)
            ]
        return found

    def _methods(self) -> list[Method]:
        chosen = self.plan.methods
        return [each for each in all_methods() if not chosen or each.name in chosen]

    def alone(self) -> dict[str, list[Schedule]]:
        """What the policy makes of the nest without any measurement, and what it is compared to."""
        game = self.game(Preset.FULL)
        reference = self._searched("genetic", 0, self.plan.reference)
        return {
            POLICY: propose(self.problem, self.device, 1, self.contest.policies[Preset.FULL]),
            PROMISING: self._promising(1),
            CONSTANT: [play_constant(game, self.contest.constants[Preset.FULL])],
            BEST: [Schedule.parse(text) for text in _fastest(reference)],
        }

    def looptune(self) -> dict[str, list[Schedule]]:
        """The same for the preset looptune; a beam search says what can be reached."""
        plan, game = self.plan, self.game(Preset.LOOPTUNE)
        method = method_of("beam", width=4, lookahead=2)
        budget = SearchBudget(plan.beam, plan.looptune_actions)
        run = run_search(self.problem, game, self.rates, method, budget)
        seconds = {step.schedule: step.seconds for step in run.steps}
        policy = self.contest.policies[Preset.LOOPTUNE]
        constant = self.contest.constants[Preset.LOOPTUNE][: plan.looptune_actions]
        return {
            f"looptune {POLICY}": [planned(policy, game, 1, plan.looptune_actions)[0].schedule],
            f"looptune {CONSTANT}": [play_constant(game, constant)],
            f"looptune {BEAM}": [Schedule.parse(text) for text in _fastest(seconds)],
            "looptune untuned": [game.built(game.start())],
        }

    def _promising(self, count: int) -> list[Schedule]:
        return [self.space.schedule(config) for config in self.space.promising(count)]

    def _best_of(self, schedules: Sequence[Schedule]) -> list[float | None]:
        seconds = self.rates.seconds(self.problem, schedules)
        return [_least(seconds[:budget]) for budget in self.plan.budgets]

    def _searched(self, text: str, seed: int, trials: int) -> dict[str, float | None]:
        """The schedules that a searcher asks for, as `skipjack tune` would let it."""
        context = SearchContext(
            *(self.space, seed, trials, tuple(self.space.promising(_SEEDS_GIVEN))),
            default_soon=False,
            problem=self.problem,
            device=self.device,
        )
        searcher = create(text, context)
        found: dict[str, float | None] = {}
        while len(found) < trials and not searcher.done:
            asked = searcher.ask(min(_BATCH, trials - len(found)))
            if not asked:
                break
            schedules = [self.space.schedule(config) for config in asked]
            for config, taken in zip(
                asked, self.rates.seconds(self.problem, schedules), strict=True
            ):
                found[str(config["schedule"])] = taken
                searcher.tell(_trial(config, taken))
        return found

    def _tree(
        self, game: LoopGame, method: Method, seed: int, actions: int, most: int
    ) -> list[float | None]:
        budget = SearchBudget(most, actions)
        run = run_search(self.problem, game, self.rates, method, budget, seed=seed)
        return [
            _least(step.seconds for step in run.steps if step.measured <= budget)
            for budget in self.plan.budgets
        ]


def play_constant(game: LoopGame, names: Sequence[str]) -> Schedule:
    """What is built after these actions, without those that are illegal where they stand."""
    able = [game.number(name) for name in names if name in game.actions and name != "stop"]
    return game.built(play(game, able).state)


def plan_record(plan: Plan) -> Record:
    """For result files."""
    return asdict(plan)


def _trial(config: Config, taken: float | None) -> Trial:
    if taken is None:
        return Trial(config, Status.ERROR, reason="it has no time")
    return Trial(config, value=taken)


def _least(seconds: Iterable[float | None]) -> float | None:
    found = min((each for each in seconds if each is not None), default=inf)
    return None if found == inf else found


def _fastest(seconds: Mapping[str, float | None]) -> list[str]:
    known = {text: taken for text, taken in seconds.items() if taken is not None}
    return sorted(known, key=known.__getitem__)[:_FINALISTS]
