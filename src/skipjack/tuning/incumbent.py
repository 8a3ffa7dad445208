"""What the bank held before a sitting, as something to build and beat."""

from __future__ import annotations

from skipjack.bank import BankEntry
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate
from skipjack.errors import blaming
from skipjack.solvers import find_solver, names, refusal
from skipjack.solvers.solver import BuildingSolver


def incumbent_of(entry: BankEntry | None, problem: Problem, device: Device) -> Candidate | None:
    """The entry's config, if it can still be built; libraries are timed in any case."""
    if entry is None or entry.solver not in names():
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
    if entry.solver not in names():
        return False
    solver = find_solver(entry.solver)
    return isinstance(solver, BuildingSolver) and entry.solver_version <= solver.version
