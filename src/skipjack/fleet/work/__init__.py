"""What a worker does: it builds a round of a job, or evaluates it on its device."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.work.worker import (
        DEFAULT_FACTORY,
        HEARTBEAT_S,
        Factory,
        Worker,
        lower_priority,
        make_worker,
        name_of,
        named,
        run_message,
    )
    from skipjack.fleet.work.worker_log import captured_log, open_worker_log, running_log

__all__ = [
    "DEFAULT_FACTORY",
    "HEARTBEAT_S",
    "Factory",
    "Worker",
    "captured_log",
    "lower_priority",
    "make_worker",
    "name_of",
    "named",
    "open_worker_log",
    "run_message",
    "running_log",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "worker": (
            "DEFAULT_FACTORY Factory HEARTBEAT_S Worker lower_priority make_worker name_of "
            "named run_message"
        ),
        "worker_log": "captured_log open_worker_log running_log",
    },
)
