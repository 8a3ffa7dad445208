"""The run worker of a GPU: arrays in its memory, kernels from artifacts, checks, timing."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.execute.gpu.kernel import (
        LoadedKernel,
        Queue,
        checked_artifact,
        hidden_scratch,
        packed,
    )
    from skipjack.execute.gpu.worker import serve

__all__ = [
    "LoadedKernel",
    "Queue",
    "checked_artifact",
    "hidden_scratch",
    "packed",
    "serve",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "kernel": "LoadedKernel Queue checked_artifact hidden_scratch packed",
        "worker": "serve",
    },
)
