"""From configs to kernels that were verified on this machine: before, now or in the background."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.checks.background import (
        KernelCheck,
        StillCheckingError,
        check_in_background,
        forget_checks,
    )
    from skipjack.runtime.checks.gpu_code import build_for_gpu, fault_on_gpu, shipped_build
    from skipjack.runtime.checks.guesses import FastestConfig, fastest_config
    from skipjack.runtime.checks.verified_code import (
        UnusableEntryError,
        UsableEntry,
        candidate_code,
        code_of,
        reason_of,
        solver_of,
        usable_entry,
    )
    from skipjack.runtime.local_kernels import (
        TIMED_CONFIGS,
        TimedConfigs,
        UntunedConfig,
        read_timed_configs,
    )

__all__ = [
    "TIMED_CONFIGS",
    "FastestConfig",
    "KernelCheck",
    "StillCheckingError",
    "TimedConfigs",
    "UntunedConfig",
    "UnusableEntryError",
    "UsableEntry",
    "build_for_gpu",
    "candidate_code",
    "check_in_background",
    "code_of",
    "fastest_config",
    "fault_on_gpu",
    "forget_checks",
    "read_timed_configs",
    "reason_of",
    "shipped_build",
    "solver_of",
    "usable_entry",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "background": "KernelCheck StillCheckingError check_in_background forget_checks",
        "gpu_code": "build_for_gpu fault_on_gpu shipped_build",
        "guesses": "FastestConfig fastest_config",
        "verified_code": (
            "UnusableEntryError UsableEntry candidate_code code_of reason_of solver_of usable_entry"
        ),
        "skipjack.runtime.local_kernels": (
            "TIMED_CONFIGS TimedConfigs UntunedConfig read_timed_configs"
        ),
    },
)
