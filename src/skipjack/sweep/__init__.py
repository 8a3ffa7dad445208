"""Sweeps: the best setting of any benchmark that has a build command and a run command.

A sweep file finds here, by name, what it needs for a search of its own.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.search import Repeat, Run, SearcherInterface, do_send
    from skipjack.search.load import Bisect, Boundary, FindUpperBound, JointLoad, QPSBisect
    from skipjack.search.scripted import (
        CartesianProduct,
        Composer,
        GreedyStepper,
        Named,
        Overlay,
        Step,
    )

__all__ = [
    "Bisect",
    "Boundary",
    "CartesianProduct",
    "Composer",
    "FindUpperBound",
    "GreedyStepper",
    "JointLoad",
    "Named",
    "Overlay",
    "QPSBisect",
    "Repeat",
    "Run",
    "SearcherInterface",
    "Step",
    "do_send",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.search": "Repeat Run SearcherInterface do_send",
        "skipjack.search.load": "Bisect Boundary FindUpperBound JointLoad QPSBisect",
        "skipjack.search.scripted": "CartesianProduct Composer GreedyStepper Named Overlay Step",
    },
)
