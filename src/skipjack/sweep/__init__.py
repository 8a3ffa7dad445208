"""Sweeps: the best setting of any benchmark that has a build command and a run command.

What a sweep file needs for a search of its own is here by name.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy
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

if TYPE_CHECKING:
    from skipjack.sweep.foreseeing import Foreseen as Foreseen
    from skipjack.sweep.foreseeing import foresee as foresee
    from skipjack.sweep.progress import SweepObserver as SweepObserver
    from skipjack.sweep.result import SweepResult as SweepResult
    from skipjack.sweep.running import past_runs as past_runs
    from skipjack.sweep.running import run_commands as run_commands
    from skipjack.sweep.setting_up import SweepSetup as SweepSetup
    from skipjack.sweep.setting_up import set_up as set_up

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
        "foreseeing": ("Foreseen", "foresee"),
        "progress": ("SweepObserver",),
        "result": ("SweepResult",),
        "running": ("past_runs", "run_commands"),
        "setting_up": ("SweepSetup", "set_up"),
    },
)
"""For programs that run sweeps; a sweep file, which imports this package, loads none of them."""
