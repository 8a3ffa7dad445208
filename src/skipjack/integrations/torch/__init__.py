"""Tuned kernels under PyTorch's operations, for programs that need not know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipjack.integrations.torch.decisions import TorchDecision, TorchStatus
    from skipjack.integrations.torch.enabling import autotune, disable, enable, is_enabled
    from skipjack.integrations.torch.reporting import TorchReport, report
    from skipjack.integrations.torch.result_file import ReadResult, ResultRow, read_result
    from skipjack.integrations.torch.results import (
        RESULT_PATH_VARIABLE,
        RESULT_VARIABLE,
        STARTED_VARIABLE,
        ResultWish,
        keep_results,
    )
    from skipjack.integrations.torch.signatures import why_unknown
    from skipjack.integrations.torch.starting import (
        OPERATIONS_VARIABLE,
        operations,
        start_in_program,
    )

__all__ = [
    "OPERATIONS_VARIABLE",
    "RESULT_PATH_VARIABLE",
    "RESULT_VARIABLE",
    "STARTED_VARIABLE",
    "ReadResult",
    "ResultRow",
    "ResultWish",
    "TorchDecision",
    "TorchReport",
    "TorchStatus",
    "autotune",
    "disable",
    "enable",
    "is_enabled",
    "keep_results",
    "operations",
    "read_result",
    "report",
    "start_in_program",
    "why_unknown",
]
_HOMES = {
    "decisions": ("TorchDecision", "TorchStatus"),
    "enabling": ("autotune", "disable", "enable", "is_enabled"),
    "reporting": ("TorchReport", "report"),
    "result_file": ("ReadResult", "ResultRow", "read_result"),
    "results": (
        *("RESULT_PATH_VARIABLE", "RESULT_VARIABLE", "STARTED_VARIABLE"),
        *("ResultWish", "keep_results"),
    ),
    "signatures": ("why_unknown",),
    "starting": ("OPERATIONS_VARIABLE", "operations", "start_in_program"),
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
