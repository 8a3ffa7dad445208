"""What a program touches: `lookup`, kernels that run, kernel files. Light to import."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.native import BoundKernel
    from skipjack.runtime.answers import Heuristic, ProposedConfig, register_heuristic
    from skipjack.runtime.bank_export import BankedKernels, SystemBank, banked_kernels, ship
    from skipjack.runtime.bank_lookup import look_up_again, lookup, reload
    from skipjack.runtime.full_lookup import NoGpuError, explain, select_device
    from skipjack.runtime.kernel_file import Kernels, found_again, kernels
    from skipjack.runtime.local_kernels import (
        CacheStatus,
        GpuKernel,
        KernelCode,
        LibraryKernel,
        ReleasedKernels,
        TunedKernel,
        VerifiedKernel,
        VerifiedKernels,
        banked_again,
        cache_status,
        callable_of,
        entry_key,
        fresh_first,
        keep_within_limit,
        kernel_key,
        named_again,
        release_kernels,
        requested_problem,
        why_stale,
    )
    from skipjack.runtime.missed_problems import MissedProblem, MissFile
    from skipjack.runtime.process import (
        POLICY_ARGUMENTS,
        TuningPolicy,
        current_policy,
        in_force,
        make_policy,
        mode_of_decorated,
        policy_variables,
        ranked_program,
        set_tuning_policy,
        tuning_policy,
    )

__all__ = [
    "POLICY_ARGUMENTS",
    "BankedKernels",
    "BoundKernel",
    "CacheStatus",
    "GpuKernel",
    "Heuristic",
    "KernelCode",
    "Kernels",
    "LibraryKernel",
    "MissFile",
    "MissedProblem",
    "NoGpuError",
    "ProposedConfig",
    "ReleasedKernels",
    "SystemBank",
    "TunedKernel",
    "TuningPolicy",
    "VerifiedKernel",
    "VerifiedKernels",
    "banked_again",
    "banked_kernels",
    "cache_status",
    "callable_of",
    "current_policy",
    "entry_key",
    "explain",
    "found_again",
    "fresh_first",
    "in_force",
    "keep_within_limit",
    "kernel_key",
    "kernels",
    "look_up_again",
    "lookup",
    "make_policy",
    "mode_of_decorated",
    "named_again",
    "policy_variables",
    "ranked_program",
    "register_heuristic",
    "release_kernels",
    "reload",
    "requested_problem",
    "select_device",
    "set_tuning_policy",
    "ship",
    "tuning_policy",
    "why_stale",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.native": "BoundKernel",
        "answers": "Heuristic ProposedConfig register_heuristic",
        "bank_export": "BankedKernels SystemBank banked_kernels ship",
        "bank_lookup": "look_up_again lookup reload",
        "full_lookup": "NoGpuError explain select_device",
        "kernel_file": "Kernels found_again kernels",
        "local_kernels": (
            "CacheStatus GpuKernel KernelCode LibraryKernel ReleasedKernels TunedKernel "
            "VerifiedKernel VerifiedKernels banked_again cache_status callable_of entry_key "
            "fresh_first keep_within_limit kernel_key named_again release_kernels "
            "requested_problem why_stale"
        ),
        "missed_problems": "MissFile MissedProblem",
        "process": (
            "POLICY_ARGUMENTS TuningPolicy current_policy in_force make_policy "
            "mode_of_decorated policy_variables ranked_program set_tuning_policy tuning_policy"
        ),
    },
)
