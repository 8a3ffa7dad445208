"""Sweeps: the best setting of any benchmark that has a build command and a run command.

What a sweep file needs for a search of its own is here by name.
"""

from skipjack.search.scripted import (
    Bisect,
    Boundary,
    CartesianProduct,
    Composer,
    FindUpperBound,
    GreedyStepper,
    JointLoad,
    Named,
    Overlay,
    QPSBisect,
    Repeat,
    Run,
    SearcherInterface,
    Step,
    do_send,
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
