"""The native functions that PyTorch calls instead of its own kernels."""

from __future__ import annotations

from skipjack.integrations.torch.stubs.layout import (
    ARENA,
    ARGUMENT,
    ASKS,
    ENTRY_HEAD,
    MOST_ITEMS,
    MOST_PLACES,
    MOST_RANK,
    MOST_SLOTS,
    OPTIONAL_ARGUMENT,
    OURS,
    RAISES,
    RESULT,
    TORCH,
)
from skipjack.integrations.torch.stubs.module import stub_text

__all__ = [
    "ARENA",
    "ARGUMENT",
    "ASKS",
    "ENTRY_HEAD",
    "MOST_ITEMS",
    "MOST_PLACES",
    "MOST_RANK",
    "MOST_SLOTS",
    "OPTIONAL_ARGUMENT",
    "OURS",
    "RAISES",
    "RESULT",
    "TORCH",
    "stub_text",
]
