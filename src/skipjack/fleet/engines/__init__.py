"""Engines: where a coordinator's workers are. `Engine` is what one must do.

`LocalEngine` and `RayEngine` are imported when they are asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skipjack.fleet.engine import Done, Engine, Host, RunningLog, Slot
from skipjack.fleet.records import Plan
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.worker_log import captured_log

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
_MODULES = {"LocalEngine": "local", "RayEngine": "ray_engine"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
