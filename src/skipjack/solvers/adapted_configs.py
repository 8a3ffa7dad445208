"""Configs of other problems as configs of a problem: those of a portfolio, or of known winners."""

from __future__ import annotations

from skipjack.core import Config, Device, Problem, Space, adapted
from skipjack.errors import SkipjackError
from skipjack.solvers.registry import find_solver, is_known, refusal
from skipjack.solvers.solver import BuildingSolver


class AdaptedConfigs:
    """Adapts configs to the spaces of one problem, each of which is made once."""

    def __init__(self, problem: Problem, device: Device) -> None:
        self.problem, self.device = problem, device
        self._spaces: dict[str, Space | None] = {}

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

    def config(self, solver: str, config: Config) -> Config | None:
        """The config, or the nearest one of the problem; None if the problem cannot use it.

        That of a library is empty.
        """
        if not config:
            known = find_solver(solver) if is_known(solver) else None
            usable = known is not None and not refusal(known, self.problem, self.device)
            return config if usable else None
        space = self.space(solver)
        return None if space is None else adapted(space, config)
