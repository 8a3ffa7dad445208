"""Native code for CPUs: LLVM, kernels' slots and calls, threads, timing, and what CPU this is."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.native.checked_call import CallPlan, native_check
    from skipjack.native.code_identity import own_build_identity, own_code, target_identity
    from skipjack.native.cpu import detect, registers_of, target_of
    from skipjack.native.forks import ForkOrder, background_work, forks_wait_for
    from skipjack.native.ir import (
        ITEM_BYTES,
        STREAM_METADATA,
        Carried,
        IRWriter,
        VectorType,
        constant_mask,
        function,
    )
    from skipjack.native.llvm import text_bytes, undefined_symbols, vector_spills
    from skipjack.native.memory import (
        ALIGNMENT,
        PAGE,
        GuardedArray,
        aligned,
        keep_in_place,
        poison,
        return_free_memory,
    )
    from skipjack.native.named_cpu import describe, named_level
    from skipjack.native.pool import call_lock
    from skipjack.native.slots import (
        BoundKernel,
        LoadedCode,
        Slots,
        parallel_slot,
        scratch_slot,
        workspace_bytes,
        workspace_slot,
    )
    from skipjack.native.timer import (
        SENTINEL_ROUNDS,
        CacheFlusher,
        NativeTimer,
        arithmetic_flops,
        arithmetic_kernel,
        read_kernel,
        stream_kernel,
    )

__all__ = [
    "ALIGNMENT",
    "ITEM_BYTES",
    "PAGE",
    "SENTINEL_ROUNDS",
    "STREAM_METADATA",
    "BoundKernel",
    "CacheFlusher",
    "CallPlan",
    "Carried",
    "ForkOrder",
    "GuardedArray",
    "IRWriter",
    "LoadedCode",
    "NativeTimer",
    "Slots",
    "VectorType",
    "aligned",
    "arithmetic_flops",
    "arithmetic_kernel",
    "background_work",
    "call_lock",
    "constant_mask",
    "cpu",
    "describe",
    "detect",
    "forks_wait_for",
    "function",
    "keep_in_place",
    "llvm",
    "named_cpu",
    "named_level",
    "native_check",
    "own_build_identity",
    "own_code",
    "parallel_slot",
    "poison",
    "pool",
    "read_kernel",
    "registers_of",
    "return_free_memory",
    "scratch_slot",
    "stream_kernel",
    "target_identity",
    "target_of",
    "text_bytes",
    "undefined_symbols",
    "vector_spills",
    "workspace_bytes",
    "workspace_slot",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "checked_call": "CallPlan native_check",
        "code_identity": "own_build_identity own_code target_identity",
        "cpu": "detect registers_of target_of",
        "forks": "ForkOrder background_work forks_wait_for",
        "ir": "Carried IRWriter ITEM_BYTES STREAM_METADATA VectorType constant_mask function",
        "llvm": "text_bytes undefined_symbols vector_spills",
        "memory": "ALIGNMENT GuardedArray PAGE aligned keep_in_place poison return_free_memory",
        "named_cpu": "describe named_level",
        "pool": "call_lock",
        "slots": (
            "BoundKernel LoadedCode Slots parallel_slot scratch_slot workspace_bytes workspace_slot"
        ),
        "timer": (
            "CacheFlusher NativeTimer SENTINEL_ROUNDS arithmetic_flops arithmetic_kernel "
            "read_kernel stream_kernel"
        ),
    },
)
