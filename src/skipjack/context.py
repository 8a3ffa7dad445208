"""MindSpore's context for PyTorch programs: tuning is turned on by the same calls.

>>> from skipjack import context
>>> context.set_context(mode=context.GRAPH_MODE, auto_tune_mode="GA,RL")  # doctest: +SKIP
"""

from skipjack.integrations import get_context, set_context
from skipjack.integrations.mindspore import GRAPH_MODE, PYNATIVE_MODE

__all__ = ["GRAPH_MODE", "PYNATIVE_MODE", "get_context", "set_context"]
