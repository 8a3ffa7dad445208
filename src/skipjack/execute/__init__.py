"""Running kernels and commands in worker processes: sessions, checks of results, statistics."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.execute.commands import (
        CommandRequest,
        CommandResult,
        CommandRunner,
        says_out_of_memory,
    )
    from skipjack.execute.confirmation import (
        ALPHA,
        LOOKS,
        MIN_EFFECT,
        Confirmation,
        Session,
        confirm,
    )
    from skipjack.execute.device_locks import device_lock, slot_lock
    from skipjack.execute.forked_worker import ForkedWorker
    from skipjack.execute.process import (
        START_TIMEOUT_S,
        WorkerDiedError,
        WorkerHungError,
        WorkerProcess,
        listening_to_stderr,
    )
    from skipjack.execute.session import Failure, Loadable, RunSession
    from skipjack.execute.startup import core_list, set_up_worker
    from skipjack.execute.statistics import (
        Block,
        Ratio,
        Timing,
        best_sentinel,
        by_kernel,
        paired_ratio,
        summarize,
    )
    from skipjack.execute.verification import Checker, draw_inputs
    from skipjack.execute.wire import Message

__all__ = [
    "ALPHA",
    "LOOKS",
    "MIN_EFFECT",
    "START_TIMEOUT_S",
    "Block",
    "Checker",
    "CommandRequest",
    "CommandResult",
    "CommandRunner",
    "Confirmation",
    "Failure",
    "ForkedWorker",
    "Loadable",
    "Message",
    "Ratio",
    "RunSession",
    "Session",
    "Timing",
    "WorkerDiedError",
    "WorkerHungError",
    "WorkerProcess",
    "best_sentinel",
    "by_kernel",
    "confirm",
    "core_list",
    "device_lock",
    "device_locks",
    "draw_inputs",
    "listening_to_stderr",
    "paired_ratio",
    "says_out_of_memory",
    "set_up_worker",
    "slot_lock",
    "summarize",
    "wire",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "commands": "CommandRequest CommandResult CommandRunner says_out_of_memory",
        "confirmation": "ALPHA Confirmation LOOKS MIN_EFFECT Session confirm",
        "device_locks": "device_lock slot_lock",
        "forked_worker": "ForkedWorker",
        "process": (
            "START_TIMEOUT_S WorkerDiedError WorkerHungError WorkerProcess listening_to_stderr"
        ),
        "session": "Failure Loadable RunSession",
        "startup": "core_list set_up_worker",
        "statistics": "Block Ratio Timing best_sentinel by_kernel paired_ratio summarize",
        "verification": "Checker draw_inputs",
        "wire": "Message",
    },
)
