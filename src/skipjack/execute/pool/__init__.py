"""A queue of tasks for worker processes, and the workers that build: every task comes back once,
done or lost.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.execute import ForkedWorker
    from skipjack.execute.pool.builds import Build, BuildPool, known_failure
    from skipjack.execute.pool.state import Cause, NotStarting, PoolLimits, TaskLost
    from skipjack.execute.pool.worker_pool import TaskCodec, TaskDone, WorkerPool

__all__ = [
    "Build",
    "BuildPool",
    "Cause",
    "ForkedWorker",
    "NotStarting",
    "PoolLimits",
    "TaskCodec",
    "TaskDone",
    "TaskLost",
    "WorkerPool",
    "known_failure",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.execute": "ForkedWorker",
        "builds": "Build BuildPool known_failure",
        "state": "Cause NotStarting PoolLimits TaskLost",
        "worker_pool": "TaskCodec TaskDone WorkerPool",
    },
)
