"""What ``tune``, ``find`` and ``bank verify`` show: bars, tables and plots."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.report.tuning.plots import check_plots
    from skipjack.report.tuning.views import BuildView, FindView, TuneView

__all__ = [
    "BuildView",
    "FindView",
    "TuneView",
    "check_plots",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "plots": "check_plots",
        "views": "BuildView FindView TuneView",
    },
)
