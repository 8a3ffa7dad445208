"""Tasks for worker processes: one queue, and every task comes back once, done or lost.

`PoolState` decides and touches no process; `WorkerPool` has the processes and does as it says.
Build workers, the local engine's workers and forked children are all workers of such a pool.
"""

from skipjack.execute.pool.forking import ForkedWorker
from skipjack.execute.pool.state import Cause, NotStarting, PoolRules, TaskLost
from skipjack.execute.pool.worker_pool import TaskCodec, TaskDone, WorkerPool

__all__ = [
    "Cause",
    "ForkedWorker",
    "NotStarting",
    "PoolRules",
    "TaskCodec",
    "TaskDone",
    "TaskLost",
    "WorkerPool",
]
