"""What a program touches: `lookup`, kernels that run, kernel files. Light to import."""

from typing import TYPE_CHECKING, Any

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
        ENFORCE_VARIABLE,
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
    "ENFORCE_VARIABLE",
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
_HOMES = {
    "Heuristic": "skipjack.runtime.answers",
    "ProposedConfig": "skipjack.runtime.answers",
    "register_heuristic": "skipjack.runtime.answers",
    "Banked": "skipjack.runtime.shipping",
    "BoundKernel": "skipjack.native.bound",
    "CacheStatus": "skipjack.runtime.kernel_cache",
    "GpuKernel": "skipjack.runtime.gpu_kernel",
    "KernelCode": "skipjack.runtime.kernel_code",
    "Kernels": "skipjack.runtime.kernel_file",
    "LibraryKernel": "skipjack.runtime.library_kernel",
    "NoGpuError": "skipjack.runtime.placing",
    "TunedKernel": "skipjack.runtime.kernel",
    "VerifiedKernel": "skipjack.runtime.verified",
    "VerifiedKernels": "skipjack.runtime.verified",
    "asked_problem": "skipjack.runtime.asking",
    "SystemBank": "skipjack.runtime.shipping",
    "banked": "skipjack.runtime.shipping",
    "ship": "skipjack.runtime.shipping",
    "banked_again": "skipjack.runtime.kernel_code",
    "cache_status": "skipjack.runtime.kernel_cache",
    "callable_of": "skipjack.runtime.kernel_code",
    "entry_key": "skipjack.runtime.verified",
    "explain": "skipjack.runtime.bank_lookup",
    "fresh_first": "skipjack.runtime.toolchains",
    "keep_within_limit": "skipjack.runtime.kernel_cache",
    "kernel_key": "skipjack.runtime.verified",
    "kernels": "skipjack.runtime.kernel_file",
    "lookup": "skipjack.runtime.bank_lookup",
    "named_again": "skipjack.runtime.kernel_code",
    "place": "skipjack.runtime.placing",
    "ranked_program": "skipjack.runtime.ranks",
    "ReleasedKernels": "skipjack.runtime.kernel_cache",
    "release_kernels": "skipjack.runtime.kernel_cache",
    "reload": "skipjack.runtime.bank_lookup",
    "ENFORCE_VARIABLE": "skipjack.runtime.policy",
    "TuningPolicy": "skipjack.runtime.policy",
    "current_policy": "skipjack.runtime.policy",
    "mode_of_decorated": "skipjack.runtime.policy",
    "in_force": "skipjack.runtime.policy",
    "POLICY_ARGUMENTS": "skipjack.runtime.policy",
    "make_policy": "skipjack.runtime.policy",
    "policy_variables": "skipjack.runtime.policy",
    "set_tuning_policy": "skipjack.runtime.policy",
    "tuning_policy": "skipjack.runtime.policy",
    "why_stale": "skipjack.runtime.toolchains",
}
"""Where each name is, loaded when it is first asked for."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
