"""Tuned kernels for PyTorch's operations, without changes to the program."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.torch.activation import (
        TorchReport,
        autotune,
        disable,
        enable,
        is_enabled,
        report,
    )
    from skipjack.integrations.torch.outcomes import (
        ReadResult,
        ResultRequest,
        ResultRow,
        TorchDecision,
        TorchStatus,
        keep_results,
        read_result,
    )
    from skipjack.integrations.torch.program_start import operation_names, start_in_program
    from skipjack.integrations.torch.stubs import why_unknown

__all__ = [
    "ReadResult",
    "ResultRequest",
    "ResultRow",
    "TorchDecision",
    "TorchReport",
    "TorchStatus",
    "autotune",
    "disable",
    "enable",
    "is_enabled",
    "keep_results",
    "operation_names",
    "read_result",
    "report",
    "start_in_program",
    "why_unknown",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "activation": "TorchReport autotune disable enable is_enabled report",
        "outcomes": (
            "ReadResult ResultRequest ResultRow TorchDecision TorchStatus keep_results read_result"
        ),
        "program_start": "operation_names start_in_program",
        "stubs": "why_unknown",
    },
)
