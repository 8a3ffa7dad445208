"""Tuned kernels under PyTorch's operations, for programs that need not know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.torch.decisions import TorchDecision, TorchStatus
    from skipjack.integrations.torch.enabling import autotune, disable, enable, is_enabled
    from skipjack.integrations.torch.reporting import TorchReport, report
    from skipjack.integrations.torch.result_file import ReadResult, ResultRow, read_result
    from skipjack.integrations.torch.results import (
        ResultWish,
        keep_results,
    )
    from skipjack.integrations.torch.signatures import why_unknown
    from skipjack.integrations.torch.starting import (
        operations,
        start_in_program,
    )

__all__ = [
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "decisions": ("TorchDecision", "TorchStatus"),
        "enabling": ("autotune", "disable", "enable", "is_enabled"),
        "reporting": ("TorchReport", "report"),
        "result_file": ("ReadResult", "ResultRow", "read_result"),
        "results": (
            "ResultWish",
            "keep_results",
        ),
        "signatures": ("why_unknown",),
        "starting": ("operations", "start_in_program"),
    },
)
