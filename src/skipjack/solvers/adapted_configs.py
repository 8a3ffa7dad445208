"""Configs of other problems as configs of a problem: those of a portfolio, or of known winners."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core import Config, Device, Problem, Promising, Space, adapted
from skipjack.errors import SkipjackError
from skipjack.solvers.registry import find_solver, is_known, refusal
from skipjack.solvers.solver import BuildingSolver

PROPOSALS = 4


class AdaptedConfigs:
    """Adapts configs to the spaces of one problem, each of which is made once."""

    def __init__(self, problem: Problem, device: Device) -> None:
        self.problem, self.device = problem, device
        self._spaces: dict[str, Space | None] = {}
        self._proposals: dict[str, Sequence[Config]] = {}

    def space(self, solver: str) -> Space | None:
        """The space of a solver; None if it is unknown or refuses the problem."""
        if solver not in self._spaces:
            self._spaces[solver] = self._made(solver)
        return self._spaces[solver]

    def _made(self, name: str) -> Space | None:
        solver = find_solver(name) if is_known(name) else None
        if not isinstance(solver, BuildingSolver) or refusal(solver, self.problem, self.device):
            return None
        try:
            return solver.space(self.problem, self.device)
        except SkipjackError:
            return None

    def config(self, solver: str, config: Config, place: int | None = None) -> Config | None:
        """The config, or the nearest one of the problem; None if the problem cannot use it.

        That of a library is empty. With a `place` it is the one at this place in the order in which
        the solver's space proposes configs.
        """
        if place is not None:
            proposals = self.proposals(solver)
            return proposals[place] if place < len(proposals) else None
        if not config:
            known = find_solver(solver) if is_known(solver) else None
            usable = known is not None and not refusal(known, self.problem, self.device)
            return config if usable else None
        space = self.space(solver)
        return None if space is None else adapted(space, config)

    def proposals(self, solver: str) -> Sequence[Config]:
        """The first configs that the space of a solver proposes, at most `PROPOSALS`."""
        if solver not in self._proposals:
            space = self.space(solver)
            found = space.promising(PROPOSALS) if isinstance(space, Promising) else ()
            self._proposals[solver] = tuple(found)
        return self._proposals[solver]
