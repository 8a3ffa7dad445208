"""Sweeps: the best setting of any benchmark that has a build command and a run command.

What a sweep file needs for a search of its own is here by name.
"""

from typing import TYPE_CHECKING, Any

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
_HOMES = {
    "Foreseen": "foreseeing",
    "SweepObserver": "progress",
    "SweepResult": "result",
    "SweepSetup": "setting_up",
    "foresee": "foreseeing",
    "past_runs": "running",
    "run_commands": "running",
    "set_up": "setting_up",
}
"""For programs that run sweeps; a sweep file, which imports this package, loads none of them."""


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
