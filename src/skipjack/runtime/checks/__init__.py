"""From configs to kernels that were verified on this machine, before, now or beside the program."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.checks.beside import (
        KernelCheck,
        StillCheckingError,
        checked_beside,
        forget_checks,
    )
    from skipjack.runtime.checks.entry_code import (
        Usable,
        UselessEntryError,
        candidate_code,
        code_of,
        reason_of,
        solver_of,
        usable,
    )
    from skipjack.runtime.checks.guess_records import GUESSES, Guess, TimedGuesses, read_guesses
    from skipjack.runtime.checks.guesses import FastestGuess, fastest_guess
    from skipjack.runtime.checks.on_gpu import build_for_gpu, fault_on_gpu
    from skipjack.runtime.checks.shipped import shipped_build

__all__ = [
    "GUESSES",
    "FastestGuess",
    "Guess",
    "KernelCheck",
    "StillCheckingError",
    "TimedGuesses",
    "Usable",
    "UselessEntryError",
    "build_for_gpu",
    "candidate_code",
    "checked_beside",
    "code_of",
    "fastest_guess",
    "fault_on_gpu",
    "forget_checks",
    "read_guesses",
    "reason_of",
    "shipped_build",
    "solver_of",
    "usable",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "beside": ("KernelCheck", "StillCheckingError", "checked_beside", "forget_checks"),
        "entry_code": (
            "Usable",
            "UselessEntryError",
            "candidate_code",
            "code_of",
            "reason_of",
            "solver_of",
            "usable",
        ),
        "guess_records": ("GUESSES", "Guess", "TimedGuesses", "read_guesses"),
        "guesses": ("FastestGuess", "fastest_guess"),
        "on_gpu": ("build_for_gpu", "fault_on_gpu"),
        "shipped": ("shipped_build",),
    },
)
