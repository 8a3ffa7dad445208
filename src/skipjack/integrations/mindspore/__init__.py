"""MindSpore's AutoTune in its own words: modes, variables, and the context that sets them."""

from __future__ import annotations

from skipjack.integrations.mindspore.modes import (
    AUTO_TUNE_MODES,
    NO_TUNE,
    auto_tune_mode,
    searchers_of,
)

__all__ = ["AUTO_TUNE_MODES", "NO_TUNE", "auto_tune_mode", "searchers_of"]
