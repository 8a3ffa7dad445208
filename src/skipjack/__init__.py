"""Skipjack finds the fastest way to run a kernel on the hardware at hand, and remembers it.

>>> import skipjack
>>> result = skipjack.tune("matmul:192x192x192", seconds=2)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

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
_HOMES = {
    "TunedKernel": "runtime",
    "autotune": "integrations.triton_autotune",
    "kernels": "runtime",
    "lookup": "runtime",
    "reload": "runtime",
    "set_tuning_policy": "runtime",
    "triton_kernel": "integrations.adapting",
    "tuning_policy": "runtime",
}
"""Names that are not of the tuning machinery, and where they are."""


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is first used: importing Skipjack itself stays quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"skipjack.{_HOMES.get(name, 'tuning')}")
    found = globals()[name] = getattr(home, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
