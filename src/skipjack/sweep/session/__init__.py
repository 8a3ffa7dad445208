"""Sweeps of commands from the user's options: setup, forecast and run."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.sweep.session.forecast import (
        MOST_POINTS,
        SweepForecast,
        forecast_sweep,
        listed_points,
    )
    from skipjack.sweep.session.run import directory_lock, past_runs, run_commands
    from skipjack.sweep.session.setup import SweepSetup, set_up

__all__ = [
    "MOST_POINTS",
    "SweepForecast",
    "SweepSetup",
    "directory_lock",
    "forecast_sweep",
    "listed_points",
    "past_runs",
    "run_commands",
    "set_up",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "forecast": "MOST_POINTS SweepForecast forecast_sweep listed_points",
        "run": "directory_lock past_runs run_commands",
        "setup": "SweepSetup set_up",
    },
)
