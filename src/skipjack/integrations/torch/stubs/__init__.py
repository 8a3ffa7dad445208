"""The native functions that PyTorch calls instead of its own kernels."""

from __future__ import annotations

from skipjack.integrations.torch.stubs.channels import CHANNEL_DTYPES
from skipjack.integrations.torch.stubs.code import stub_code
from skipjack.integrations.torch.stubs.launching import (
    FILL,
    LAUNCH,
    MOST_ARGUMENTS,
    MOST_DESCRIPTORS,
)
from skipjack.integrations.torch.stubs.layout import (
    ARENA,
    ARGUMENT,
    ASKS,
    ENTRY_HEAD,
    MOST_ITEMS,
    MOST_PLACES,
    MOST_RANK,
    MOST_SLOTS,
    MUTABLE_ARGUMENT,
    OPTIONAL_ARGUMENT,
    OURS,
    RAISES,
    RESULT,
    TORCH,
)
from skipjack.integrations.torch.stubs.module import STUB_STEPS, StubModule, stub_module
from skipjack.integrations.torch.stubs.rows import CPP_SYMBOLS

__all__ = [
    "ARENA",
    "ARGUMENT",
    "ASKS",
    "CHANNEL_DTYPES",
    "CPP_SYMBOLS",
    "ENTRY_HEAD",
    "FILL",
    "LAUNCH",
    "MOST_ARGUMENTS",
    "MOST_DESCRIPTORS",
    "MOST_ITEMS",
    "MOST_PLACES",
    "MOST_RANK",
    "MOST_SLOTS",
    "MUTABLE_ARGUMENT",
    "OPTIONAL_ARGUMENT",
    "OURS",
    "RAISES",
    "RESULT",
    "STUB_STEPS",
    "TORCH",
    "StubModule",
    "stub_code",
    "stub_module",
]
