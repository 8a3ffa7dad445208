"""Engines run a coordinator's workers. `Engine` is the interface.

`LocalEngine` and `RayEngine` are imported when they are first used.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.engines.local import LocalEngine
    from skipjack.fleet.engines.ray_engine import RayEngine
    from skipjack.fleet.model import (
        Done,
        Engine,
        Host,
        JobPlan,
        JobStage,
        RunningLog,
        Slot,
        Task,
        TaskOutcome,
    )
    from skipjack.fleet.work import captured_log

__all__ = [
    "Done",
    "Engine",
    "Host",
    "JobPlan",
    "JobStage",
    "LocalEngine",
    "RayEngine",
    "RunningLog",
    "Slot",
    "Task",
    "TaskOutcome",
    "captured_log",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "local": "LocalEngine",
        "ray_engine": "RayEngine",
        "skipjack.fleet.model": (
            "Done Engine Host JobPlan JobStage RunningLog Slot Task TaskOutcome"
        ),
        "skipjack.fleet.work": "captured_log",
    },
)
