"""Which of MIOpen's families of algorithms a solver belongs to."""

from __future__ import annotations

from skipjack.errors import SkipjackError
from skipjack.interop.miopen import Family
from skipjack.solvers import find_solver


def family_of(solver: str) -> Family:
    """What the solver declares; Direct for one of a plug-in that is not loaded here."""
    try:
        return find_solver(solver).algorithm
    except SkipjackError:
        return "Direct"
