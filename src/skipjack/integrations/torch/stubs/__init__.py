"""Native functions that PyTorch calls instead of its own kernels, and the table that they read."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.integrations.torch.stubs.abi import (
        TorchAbi,
        driver_address,
        stub_code,
        torch_abi,
        torch_module,
    )
    from skipjack.integrations.torch.stubs.channels import CHANNEL_DTYPES
    from skipjack.integrations.torch.stubs.cpp_fallbacks import CPP_SYMBOLS
    from skipjack.integrations.torch.stubs.launches import (
        FILL,
        LAUNCH,
        MOST_ARGUMENTS,
        MOST_DESCRIPTORS,
    )
    from skipjack.integrations.torch.stubs.module import STUB_STEPS, StubModule, stub_module
    from skipjack.integrations.torch.stubs.signatures import (
        LISTS,
        SIGNATURES,
        ArgumentKind,
        Signature,
        TorchBackend,
        why_unknown,
    )
    from skipjack.integrations.torch.stubs.table import (
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
        UNDEFINED,
        CallTable,
        NativePlan,
        PlanOutput,
        PlanPlace,
        PlanStep,
        TableEntry,
    )

__all__ = [
    "ARENA",
    "ARGUMENT",
    "ASKS",
    "CHANNEL_DTYPES",
    "CPP_SYMBOLS",
    "ENTRY_HEAD",
    "FILL",
    "LAUNCH",
    "LISTS",
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
    "SIGNATURES",
    "STUB_STEPS",
    "TORCH",
    "UNDEFINED",
    "ArgumentKind",
    "CallTable",
    "NativePlan",
    "PlanOutput",
    "PlanPlace",
    "PlanStep",
    "Signature",
    "StubModule",
    "TableEntry",
    "TorchAbi",
    "TorchBackend",
    "driver_address",
    "stub_code",
    "stub_module",
    "torch_abi",
    "torch_module",
    "why_unknown",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "abi": "TorchAbi driver_address stub_code torch_abi torch_module",
        "channels": "CHANNEL_DTYPES",
        "cpp_fallbacks": "CPP_SYMBOLS",
        "launches": "FILL LAUNCH MOST_ARGUMENTS MOST_DESCRIPTORS",
        "module": "STUB_STEPS StubModule stub_module",
        "signatures": "ArgumentKind LISTS SIGNATURES Signature TorchBackend why_unknown",
        "table": (
            "ARENA ARGUMENT ASKS CallTable ENTRY_HEAD MOST_ITEMS MOST_PLACES MOST_RANK "
            "MOST_SLOTS MUTABLE_ARGUMENT NativePlan OPTIONAL_ARGUMENT OURS PlanOutput PlanPlace "
            "PlanStep RAISES RESULT TORCH TableEntry UNDEFINED"
        ),
    },
)
