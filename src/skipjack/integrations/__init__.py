"""Skipjack inside other programs and libraries: PyTorch, Triton, and the settings of MindSpore's
AutoTune.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.context import get_context, set_context

__all__ = [
    "get_context",
    "set_context",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "context": "get_context set_context",
    },
)
