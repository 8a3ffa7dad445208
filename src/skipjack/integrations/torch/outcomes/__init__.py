"""What became of a program's calls: decisions, the result file, and the program's times."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.torch.outcomes.program_results import (
        ResultRequest,
        keep_results,
        kept_results,
    )
    from skipjack.integrations.torch.outcomes.result_file import (
        CallKey,
        ProgramTime,
        ReadResult,
        ResultRow,
        TorchDecision,
        TorchStatus,
        call_key,
        read_result,
    )

__all__ = [
    "CallKey",
    "ProgramTime",
    "ReadResult",
    "ResultRequest",
    "ResultRow",
    "TorchDecision",
    "TorchStatus",
    "call_key",
    "keep_results",
    "kept_results",
    "read_result",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "program_results": "ResultRequest keep_results kept_results",
        "result_file": (
            "CallKey ProgramTime ReadResult ResultRow TorchDecision TorchStatus call_key "
            "read_result"
        ),
    },
)
