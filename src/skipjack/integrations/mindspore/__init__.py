"""The modes and environment variables of MindSpore's AutoTune."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.mindspore.settings import (
        AUTO_TUNE_MODES,
        GRAPH_MODE,
        NO_TUNE,
        PYNATIVE_MODE,
        VARIABLES,
        AutoTuneVariables,
        auto_tune_mode,
        mode_policy,
        read_variables,
        searchers_of,
    )

__all__ = [
    "AUTO_TUNE_MODES",
    "GRAPH_MODE",
    "NO_TUNE",
    "PYNATIVE_MODE",
    "VARIABLES",
    "AutoTuneVariables",
    "auto_tune_mode",
    "mode_policy",
    "read_variables",
    "searchers_of",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "settings": (
            "AUTO_TUNE_MODES AutoTuneVariables GRAPH_MODE NO_TUNE PYNATIVE_MODE VARIABLES "
            "auto_tune_mode mode_policy read_variables searchers_of"
        ),
    },
)
