"""Code for loop nests under a schedule (`skipjack.solvers.cpu.nest`).

`kernel` writes the loops around the tile and shares them out to threads, `tile` the straight-line
code of the innermost loops, `accumulators` the partial results of a reduction that a tile keeps in
registers. `solver` offers a nest as a stage of a kernel and as a solver of its own.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.cpu.nest_code.solver import nest_stage

__all__ = [
    "nest_stage",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "solver": "nest_stage",
    },
)
