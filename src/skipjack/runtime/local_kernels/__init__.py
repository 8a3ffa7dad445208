"""Kernels on this machine: as functions of arrays, as verified code, and the cache of it."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.local_kernels.gpu_kernel import GpuKernel
    from skipjack.runtime.local_kernels.kernel import (
        Again,
        KernelCode,
        TunedKernel,
        answered_again,
        banked_again,
        callable_of,
        lacking,
        named_again,
        named_plugins,
    )
    from skipjack.runtime.local_kernels.kernel_cache import (
        TIMED_CONFIGS,
        CacheStatus,
        ReleasedKernels,
        TimedConfigs,
        UntunedConfig,
        cache_status,
        find_timed_configs,
        keep_timed_configs,
        keep_within_limit,
        read_timed_configs,
        release_kernels,
    )
    from skipjack.runtime.local_kernels.known_kernels import (
        LookupRequest,
        VerifiedKernel,
        VerifiedKernels,
        entry_key,
        kernel_key,
        known_kernel,
        requested_problem,
    )
    from skipjack.runtime.local_kernels.library_calls import (
        CpuLibraryKernel,
        GpuLibraryKernel,
        LibraryKernel,
        library_kernel,
    )
    from skipjack.runtime.local_kernels.toolchains import fresh_first, why_stale

__all__ = [
    "TIMED_CONFIGS",
    "Again",
    "CacheStatus",
    "CpuLibraryKernel",
    "GpuKernel",
    "GpuLibraryKernel",
    "KernelCode",
    "LibraryKernel",
    "LookupRequest",
    "ReleasedKernels",
    "TimedConfigs",
    "TunedKernel",
    "UntunedConfig",
    "VerifiedKernel",
    "VerifiedKernels",
    "answered_again",
    "banked_again",
    "cache_status",
    "callable_of",
    "entry_key",
    "find_timed_configs",
    "fresh_first",
    "keep_timed_configs",
    "keep_within_limit",
    "kernel_key",
    "known_kernel",
    "lacking",
    "library_kernel",
    "named_again",
    "named_plugins",
    "read_timed_configs",
    "release_kernels",
    "requested_problem",
    "why_stale",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "toolchains": "fresh_first why_stale",
        "gpu_kernel": "GpuKernel",
        "kernel": (
            "Again KernelCode TunedKernel answered_again banked_again callable_of lacking "
            "named_again named_plugins"
        ),
        "kernel_cache": (
            "CacheStatus ReleasedKernels TIMED_CONFIGS TimedConfigs UntunedConfig cache_status "
            "find_timed_configs keep_timed_configs keep_within_limit read_timed_configs "
            "release_kernels"
        ),
        "known_kernels": (
            "LookupRequest VerifiedKernel VerifiedKernels entry_key kernel_key "
            "known_kernel requested_problem"
        ),
        "library_calls": "CpuLibraryKernel GpuLibraryKernel LibraryKernel library_kernel",
    },
)
