"""What would run without tuning: the first config that the first solver proposes."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Promising, Space
from skipjack.core.trial import Candidate
from skipjack.errors import UsageError, blaming
from skipjack.solvers import solvers_for
from skipjack.solvers.solver import BuildingSolver


@dataclass(frozen=True, slots=True)
class Proposal:
    """The default of a problem on a device, and whose it is."""

    solver: BuildingSolver
    space: Space
    candidate: Candidate


def first_proposal(problem: Problem, device: Device) -> Proposal | None:
    """The default that gains are measured against; None where no solver builds the problem.

    It depends on the problem and the device alone: not on the solvers that race, nor on what is
    known of other problems.
    """
    with blaming(f"a solver asked about {problem.key}"):
        try:
            solver = solvers_for(problem, device)[0]
        except UsageError:
            return None
        space = solver.space(problem, device)
        return Proposal(solver, space, Candidate(problem, solver.name, _first_config(space)))


def _first_config(space: Space) -> Config:
    """What analysis promises most of; the space's own default where nobody knows."""
    promising = space.promising(1) if isinstance(space, Promising) else ()
    return promising[0] if promising else space.default()
