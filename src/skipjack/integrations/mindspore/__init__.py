"""MindSpore's AutoTune in its own words: modes, variables, and the context that sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipjack.integrations.mindspore.modes import (
    AUTO_TUNE_MODES,
    GRAPH_MODE,
    NO_TUNE,
    PYNATIVE_MODE,
    auto_tune_mode,
    mode_policy,
    searchers_of,
)
from skipjack.integrations.mindspore.variables import (
    VARIABLES,
    AutoTuneVariables,
    read_variables,
)
from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.mindspore.context import get_context, set_context

__all__ = [
    "AUTO_TUNE_MODES",
    "GRAPH_MODE",
    "NO_TUNE",
    "PYNATIVE_MODE",
    "VARIABLES",
    "AutoTuneVariables",
    "auto_tune_mode",
    "get_context",
    "mode_policy",
    "read_variables",
    "searchers_of",
    "set_context",
]

__getattr__, __dir__ = lazy(__name__, {"context": ("get_context", "set_context")})
"""The context needs the hook, which needs the rest of this."""
