"""Names of `skipjack.runtime` that were in `skipjack.tuning` before; using one is a warning."""

from __future__ import annotations

import warnings
from typing import Any

_NAMES = ("BoundKernel", "Kernels", "TunedKernel", "kernels")


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skipjack import runtime

    # The third frame is the caller of the `__getattr__` of `skipjack.tuning`.
    warnings.warn(
        f"skipjack.tuning.{name} is skipjack.runtime.{name} now", DeprecationWarning, stacklevel=3
    )
    return getattr(runtime, name)
