"""The run worker of a CPU: kernels, samples, peaks."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.execute.cpu.kernels import ThreadCounters
    from skipjack.execute.cpu.peaks import peaks_of, peaks_to_json, read_peaks
    from skipjack.execute.cpu.worker import serve

__all__ = [
    "ThreadCounters",
    "peaks_of",
    "peaks_to_json",
    "read_peaks",
    "serve",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "kernels": "ThreadCounters",
        "peaks": "peaks_of peaks_to_json read_peaks",
        "worker": "serve",
    },
)
