"""Our kernels against PyTorch's: what is timed, what PyTorch refuses, and what is remembered."""

from __future__ import annotations

from skipjack.integrations.torch.racing.race import (
    HookVerdict,
    judge,
    time_plainly,
    with_torch_time,
)
from skipjack.integrations.torch.racing.refusals import own_kernel, why_invalid
from skipjack.integrations.torch.racing.verdicts import (
    HookVerdicts,
    StoredVerdict,
    VerdictSubject,
    verdict_key,
)

__all__ = [
    "HookVerdict",
    "HookVerdicts",
    "StoredVerdict",
    "VerdictSubject",
    "judge",
    "own_kernel",
    "time_plainly",
    "verdict_key",
    "why_invalid",
    "with_torch_time",
]
