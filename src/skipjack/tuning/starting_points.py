"""Where to look first: what the bank holds, and what was good for problems that are near."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from skipjack.bank import BankEntry, nearest, stronger
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Promising, Space
from skipjack.core.trial import Candidate
from skipjack.errors import ProblemError, blaming
from skipjack.ledger import BankedConfig
from skipjack.operations import parse
from skipjack.solvers import find_solver, is_known, refusal
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.limits import Limits


def starting_points(
    problem: Problem,
    space: Space,
    solver: str,
    winners: Sequence[BankedConfig],
    priors: Sequence[BankedConfig] = (),
    limits: Limits | None = None,
) -> tuple[Config, ...]:
    """What was best elsewhere, winners of near problems, then promises.

    Winners are of the very class of the device; `priors` were timed on another model of the
    device's name, or are deployed in another way.
    """
    limits = limits or Limits()
    found = [one.config for one in priors if (one.problem, one.solver) == (problem.key, solver)]
    found += nearest_winners(problem, solver, winners, limits.nearest_winners)
    if isinstance(space, Promising):
        found += space.promising(limits.promising_configs)
    distinct = {space.key(config): config for config in found if space.contains(config)}
    return tuple(distinct.values())


def strongest(banked: Sequence[BankedConfig]) -> list[BankedConfig]:
    """One of each problem: by the evidence, as a bank has it; the last where none can be read.

    What is banked comes in the order in which it was written.
    """
    best: dict[str, tuple[BankedConfig, BankEntry | None]] = {}
    for one in banked:
        known, entry = best.get(one.problem, (None, None)), _entry(one)
        if known[1] is None or (entry is not None and stronger(known[1], entry) == entry):
            best[one.problem] = one, entry
    return [one for one, _ in best.values()]


def _entry(banked: BankedConfig) -> BankEntry | None:
    try:
        return BankEntry.from_line(banked.record) if banked.record else None
    except ValueError:
        return None


def nearest_winners(
    problem: Problem, solver: str, winners: Sequence[BankedConfig], count: int
) -> list[Config]:
    """Configs of the nearest problems of this solver, nearest first."""
    known: list[tuple[Problem, Config]] = []
    for winner in winners:
        # A problem's own winner is known from the study; operations may not be known any more.
        with suppress(ProblemError):
            if winner.solver == solver:
                known.append((parse(winner.problem), winner.config))
    return [config for _, config in nearest(problem, known)[:count]]


def incumbent_of(entry: BankEntry | None, problem: Problem, device: Device) -> Candidate | None:
    """The entry's config, if it can still be built; libraries are timed in any case."""
    if entry is None or not is_known(entry.solver):
        return None
    solver = find_solver(entry.solver)
    config = Config(dict(entry.config))
    if not isinstance(solver, BuildingSolver) or entry.solver_version != solver.version:
        return None
    with blaming(f"solver {solver.name} asked about {problem.key}"):
        if refusal(solver, problem, device):
            return None
        if not solver.space(problem, device).contains(config):
            return None
    return Candidate(problem, solver.name, config)


def outdated(entry: BankEntry) -> bool:
    """Whether an entry's solver is known here and not older than the entry.

    If it cannot make that config any more, then nobody gets anything out of the entry.
    """
    if not is_known(entry.solver):
        return False
    solver = find_solver(entry.solver)
    return isinstance(solver, BuildingSolver) and entry.solver_version <= solver.version
