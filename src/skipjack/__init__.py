"""Skipjack finds the fastest way to run a kernel on the hardware at hand, and remembers it.

>>> import skipjack
>>> result = skipjack.tune("matmul:192x192x192", seconds=2)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipjack.integrations.adapting import triton_kernel
    from skipjack.integrations.triton_autotune import autotune
    from skipjack.tuning import FindResult, TuneOptions, Tuner, TuneResult, find, kernels, tune

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
    "triton_kernel",
    "tune",
]
_INTEGRATIONS = {"autotune": "triton_autotune", "triton_kernel": "adapting"}
"""Names that are not of the tuning machinery, and where they are."""


def __getattr__(name: str) -> Any:
    """Load the tuning machinery when it is first used: importing Skipjack itself stays quick."""
    if name in _INTEGRATIONS:
        from importlib import import_module

        return getattr(import_module(f"skipjack.integrations.{_INTEGRATIONS[name]}"), name)
    if name in __all__:
        from skipjack import tuning

        return getattr(tuning, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
