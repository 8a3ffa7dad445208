"""Matrix products of few rows: the large operand is read once, from front to back."""

from skipjack.solvers.cpu.thin.solver import ThinSolver

__all__ = ["ThinSolver"]
