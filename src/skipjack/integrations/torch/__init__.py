"""Tuned kernels under PyTorch's operations, for programs that need not know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipjack.integrations.torch.decisions import TorchDecision, TorchStatus
    from skipjack.integrations.torch.starting import (
        OPERATIONS_VARIABLE,
        STARTED_VARIABLE,
        start_in_program,
    )

__all__ = [
    "OPERATIONS_VARIABLE",
    "STARTED_VARIABLE",
    "TorchDecision",
    "TorchStatus",
    "start_in_program",
]
_HOMES = {
    "decisions": ("TorchDecision", "TorchStatus"),
    "starting": ("OPERATIONS_VARIABLE", "STARTED_VARIABLE", "start_in_program"),
}
"""Modules and their names, loaded when asked for."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            module = import_module(f"skipjack.integrations.torch.{home}")
            found = globals()[name] = getattr(module, name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
