"""What a program touches: `lookup`, kernels that run, kernel files. Light to import."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.native.bound import BoundKernel
    from skipjack.runtime.answers import Heuristic, ProposedConfig, register_heuristic
    from skipjack.runtime.asking import asked_problem
    from skipjack.runtime.bank_lookup import explain, lookup, reload
    from skipjack.runtime.gpu_kernel import GpuKernel
    from skipjack.runtime.kernel import TunedKernel
    from skipjack.runtime.kernel_cache import (
        CacheStatus,
        ReleasedKernels,
        cache_status,
        keep_within_limit,
        release_kernels,
    )
    from skipjack.runtime.kernel_code import KernelCode, banked_again, callable_of, named_again
    from skipjack.runtime.kernel_file import Kernels, kernels
    from skipjack.runtime.library_kernel import LibraryKernel
    from skipjack.runtime.placing import NoGpuError, place
    from skipjack.runtime.policy import (
        POLICY_ARGUMENTS,
        TuningPolicy,
        current_policy,
        in_force,
        make_policy,
        mode_of_decorated,
        policy_variables,
        set_tuning_policy,
        tuning_policy,
    )
    from skipjack.runtime.ranks import ranked_program
    from skipjack.runtime.shipping import Banked, SystemBank, banked, ship
    from skipjack.runtime.toolchains import fresh_first, why_stale
    from skipjack.runtime.verified import VerifiedKernel, VerifiedKernels, entry_key, kernel_key

__all__ = [
    "POLICY_ARGUMENTS",
    "Banked",
    "BoundKernel",
    "CacheStatus",
    "GpuKernel",
    "Heuristic",
    "KernelCode",
    "Kernels",
    "LibraryKernel",
    "NoGpuError",
    "ProposedConfig",
    "ReleasedKernels",
    "SystemBank",
    "TunedKernel",
    "TuningPolicy",
    "VerifiedKernel",
    "VerifiedKernels",
    "asked_problem",
    "banked",
    "banked_again",
    "cache_status",
    "callable_of",
    "current_policy",
    "entry_key",
    "explain",
    "fresh_first",
    "in_force",
    "keep_within_limit",
    "kernel_key",
    "kernels",
    "lookup",
    "make_policy",
    "mode_of_decorated",
    "named_again",
    "place",
    "policy_variables",
    "ranked_program",
    "register_heuristic",
    "release_kernels",
    "reload",
    "set_tuning_policy",
    "ship",
    "tuning_policy",
    "why_stale",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "answers": ("Heuristic", "ProposedConfig", "register_heuristic"),
        "asking": ("asked_problem",),
        "bank_lookup": ("explain", "lookup", "reload"),
        "gpu_kernel": ("GpuKernel",),
        "kernel": ("TunedKernel",),
        "kernel_cache": (
            "CacheStatus",
            "ReleasedKernels",
            "cache_status",
            "keep_within_limit",
            "release_kernels",
        ),
        "kernel_code": ("KernelCode", "banked_again", "callable_of", "named_again"),
        "kernel_file": ("Kernels", "kernels"),
        "library_kernel": ("LibraryKernel",),
        "placing": ("NoGpuError", "place"),
        "policy": (
            "POLICY_ARGUMENTS",
            "TuningPolicy",
            "current_policy",
            "in_force",
            "make_policy",
            "mode_of_decorated",
            "policy_variables",
            "set_tuning_policy",
            "tuning_policy",
        ),
        "ranks": ("ranked_program",),
        "shipping": ("Banked", "SystemBank", "banked", "ship"),
        "skipjack.native.bound": ("BoundKernel",),
        "toolchains": ("fresh_first", "why_stale"),
        "verified": ("VerifiedKernel", "VerifiedKernels", "entry_key", "kernel_key"),
    },
)
