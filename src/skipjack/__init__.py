"""Skipjack finds the fastest way to run a kernel on the hardware at hand, and remembers it.

>>> import skipjack
>>> result = skipjack.tune("matmul:192x192x192", seconds=2)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.adapting import triton_kernel
    from skipjack.integrations.triton_autotune import autotune
    from skipjack.runtime import (
        TunedKernel,
        kernels,
        lookup,
        reload,
        set_tuning_policy,
        tuning_policy,
    )
    from skipjack.tuning import FindResult, TuneOptions, Tuner, TuneResult, find, tune

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
        "integrations.adapting": ("triton_kernel",),
        "integrations.triton_autotune": ("autotune",),
        "runtime": (
            "TunedKernel",
            "kernels",
            "lookup",
            "reload",
            "set_tuning_policy",
            "tuning_policy",
        ),
        "tuning": ("FindResult", "TuneOptions", "TuneResult", "Tuner", "find", "tune"),
    },
)
"""Loaded when they are first used: importing Skipjack itself stays quick."""
