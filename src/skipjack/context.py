"""MindSpore's context, for programs of PyTorch: tuning is turned on by its words.

>>> from skipjack import context
>>> context.set_context(mode=context.GRAPH_MODE, auto_tune_mode="GA,RL")  # doctest: +SKIP
"""

from skipjack.integrations.mindspore import (
    GRAPH_MODE,
    PYNATIVE_MODE,
    get_context,
    set_context,
)

__all__ = ["GRAPH_MODE", "PYNATIVE_MODE", "get_context", "set_context"]
