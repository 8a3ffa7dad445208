"""The solvers of a problem: those to build, libraries, those that cannot and why, the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Promising, Space
from skipjack.core.trial import Candidate
from skipjack.errors import UsageError, blaming
from skipjack.solvers import (
    building_solvers,
    driven_elsewhere,
    every,
    find_solver,
    is_for,
    refusal,
    solvers_for,
    vendors_for,
)
from skipjack.solvers.solver import BuildingSolver, DrivingSolver, Solver


@dataclass(frozen=True, slots=True)
class ApplicableSolvers:
    """The known solvers of a problem on a device."""

    building: tuple[BuildingSolver, ...]
    """The most promising first."""
    vendors: tuple[Solver, ...]
    refused: Mapping[str, str]
    """Why a solver does not take part, by its name; of other kinds of devices those named alone."""


def entrants(problem: Problem, device: Device) -> tuple[BuildingSolver, ...]:
    """All solvers that build something for a problem, the most promising first."""
    with blaming(f"a solver asked about {problem.key}"):
        return tuple(_by_promise(problem, device))


def applicable_solvers(
    problem: Problem, device: Device, only: Sequence[str] = ()
) -> ApplicableSolvers:
    """All solvers, or those that are named."""
    for name in only:
        find_solver(name)  # a wrong name is an error, also where nothing else is asked
    wanted = only or [one.name for one in every() if _takes_part(one, device)]
    with blaming(f"a solver asked about {problem.key}"):
        refused = {name: _refusal(find_solver(name), problem, device) for name in wanted}
        able = {name for name, reason in refused.items() if not reason}
        building = _by_promise(problem, device)
        vendors = [*vendors_for(problem, device), *map(find_solver, sorted(able))]
    return ApplicableSolvers(
        tuple(solver for solver in building if solver.name in able),
        tuple(
            solver
            for solver in {one.name: one for one in vendors}.values()
            if solver.name in able and not isinstance(solver, BuildingSolver)
        ),
        {name: reason for name, reason in refused.items() if reason},
    )


def _takes_part(solver: Solver, device: Device) -> bool:
    return is_for(solver, device) and not isinstance(solver, DrivingSolver)


def _refusal(solver: Solver, problem: Problem, device: Device) -> str:
    """Why a solver is not ranked; a program of its own never is, for want of comparable times."""
    reason = refusal(solver, problem, device)
    if reason or not isinstance(solver, DrivingSolver):
        return reason
    return driven_elsewhere(solver.name)


def _by_promise(problem: Problem, device: Device) -> list[BuildingSolver]:
    """Those that would race in a tuning, in their order, then the others."""
    able = building_solvers(problem, device)
    racing = solvers_for(problem, device) if able else []
    return [*racing, *(solver for solver in able if solver not in racing)]


def compared(vendor: str) -> bool:
    """Whether a library takes part in verdicts."""
    return find_solver(vendor).compared


@dataclass(frozen=True, slots=True)
class DefaultProposal:
    """The default of a problem on a device, and whose it is."""

    solver: BuildingSolver
    space: Space
    candidate: Candidate


def default_proposal(problem: Problem, device: Device) -> DefaultProposal | None:
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
        return proposal_of(problem, solver, space)


def proposal_of(problem: Problem, solver: BuildingSolver, space: Space) -> DefaultProposal:
    """The first proposal of a solver in a space of its own."""
    return DefaultProposal(solver, space, Candidate(problem, solver.name, _first_config(space)))


def _first_config(space: Space) -> Config:
    """What analysis promises most of; the space's own default where nobody knows."""
    promising = space.promising(1) if isinstance(space, Promising) else ()
    return promising[0] if promising else space.default()
