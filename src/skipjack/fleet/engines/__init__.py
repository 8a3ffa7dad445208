"""Engines: where a coordinator's workers are. `Engine` is what one must do.

`LocalEngine` and `RayEngine` are imported when they are asked for.
"""

from typing import TYPE_CHECKING

from skipjack.fleet.engine import Done, Engine, Host, RunningLog, Slot
from skipjack.fleet.records import Plan
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.worker_log import captured_log
from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.engines.local import LocalEngine
    from skipjack.fleet.engines.ray_engine import RayEngine

__all__ = [
    "Done",
    "Engine",
    "Host",
    "LocalEngine",
    "Outcome",
    "Plan",
    "RayEngine",
    "RunningLog",
    "Slot",
    "Stage",
    "Task",
    "captured_log",
]

__getattr__, __dir__ = lazy(__name__, {"local": ("LocalEngine",), "ray_engine": ("RayEngine",)})
