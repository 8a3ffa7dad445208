"""Which kernel computes a call: ours or PyTorch's, decided by a race when it is first seen."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.torch.selection.call_chooser import CallChooser, HookOptions
    from skipjack.integrations.torch.selection.race import (
        RaceResult,
        RaceResults,
        StoredRace,
        with_torch_time,
    )
    from skipjack.integrations.torch.selection.sample_calls import own_kernel
    from skipjack.integrations.torch.selection.search_monitor import SearchMonitor

__all__ = [
    "CallChooser",
    "HookOptions",
    "RaceResult",
    "RaceResults",
    "SearchMonitor",
    "StoredRace",
    "own_kernel",
    "with_torch_time",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "call_chooser": "CallChooser HookOptions",
        "race": "RaceResult RaceResults StoredRace with_torch_time",
        "sample_calls": "own_kernel",
        "search_monitor": "SearchMonitor",
    },
)
