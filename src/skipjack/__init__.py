"""Skipjack finds the fastest way to run a kernel on the hardware at hand, and remembers it.

>>> import skipjack
>>> result = skipjack.tune("matmul:192x192x192", seconds=2)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from skipjack.earlier_paths import keep_earlier_paths
from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.triton import autotune, triton_kernel
    from skipjack.runtime import kernels, lookup, reload
    from skipjack.runtime.local_kernels import TunedKernel
    from skipjack.runtime.process import set_tuning_policy, tuning_policy
    from skipjack.tuning import FindResult, Tuner, find, tune
    from skipjack.tuning.study import TuneOptions, TuneResult

__version__ = "0.1.0"

__all__ = [
    "FindResult",
    "TuneOptions",
    "TuneResult",
    "TunedKernel",
    "Tuner",
    "__version__",
    "autotune",
    "find",
    "kernels",
    "lookup",
    "reload",
    "set_tuning_policy",
    "triton_kernel",
    "tune",
    "tuning_policy",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "integrations.triton": "autotune triton_kernel",
        "runtime": "kernels lookup reload",
        "runtime.local_kernels": "TunedKernel",
        "runtime.process": "set_tuning_policy tuning_policy",
        "tuning": "FindResult Tuner find tune",
        "tuning.study": "TuneOptions TuneResult",
    },
)

keep_earlier_paths()
