"""The sweep itself: options, search, confirmation, history and result."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.sweep.engine.confirmation import FINALISTS
    from skipjack.sweep.engine.history import (
        SOLVER,
        RunHistory,
        SweepContext,
        outcome_of,
        recorded_runs,
    )
    from skipjack.sweep.engine.measurer import SweepMeasurer
    from skipjack.sweep.engine.options import (
        LoadSearch,
        SweepOptions,
        default_objective,
        load_search,
        loadgen_objective,
        parse_load,
        parse_objectives,
    )
    from skipjack.sweep.engine.result import SweepObserver, SweepProgress, SweepResult, SweepTrial
    from skipjack.sweep.engine.sweep import SweepRequest, run_sweep

__all__ = [
    "FINALISTS",
    "SOLVER",
    "LoadSearch",
    "RunHistory",
    "SweepContext",
    "SweepMeasurer",
    "SweepObserver",
    "SweepOptions",
    "SweepProgress",
    "SweepRequest",
    "SweepResult",
    "SweepTrial",
    "default_objective",
    "load_search",
    "loadgen_objective",
    "outcome_of",
    "parse_load",
    "parse_objectives",
    "recorded_runs",
    "run_sweep",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "confirmation": "FINALISTS",
        "history": "RunHistory SOLVER SweepContext outcome_of recorded_runs",
        "measurer": "SweepMeasurer",
        "options": (
            "LoadSearch SweepOptions default_objective load_search loadgen_objective parse_load "
            "parse_objectives"
        ),
        "result": "SweepObserver SweepProgress SweepResult SweepTrial",
        "sweep": "SweepRequest run_sweep",
    },
)
