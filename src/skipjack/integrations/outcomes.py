"""What became of trying a config, and whether that was the config's fault.

A config that a compiler refuses is refused again tomorrow. That a disk or the memory was full says
nothing about a config: it is an `ERROR`, which is not held against it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

from skipjack.core.trial import Status
from skipjack.errors import SkipjackError
from skipjack.tuning.calls import CallsLostError

_LONGEST_REASON = 500
_SHORTAGES = tuple(
    os.strerror(code)
    for code in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
)
"""What tools that Triton calls say when the machine has no more of something."""
_COMPILERS = ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct")
_OF_LAUNCHES = {
    "OutOfResources": Status.OUT_OF_MEMORY,
    "WrongResultError": Status.WRONG,
    "PTXASError": Status.BUILD_ERROR,
    **dict.fromkeys(_COMPILERS, Status.BUILD_ERROR),
}


class GpuLostError(CallsLostError):
    """A config broke the GPU's context; nothing more can run on it in this process."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a build or of a run; the value it gave is elsewhere."""

    status: Status = Status.OK
    reason: str = ""
    seconds: float = 0.0


def failed_build(error: BaseException) -> Outcome:
    """A compiler may refuse a config in any words; what the machine lacks is not its refusal."""
    return Outcome(Status.ERROR if _is_the_machines(error) else Status.BUILD_ERROR, _reason(error))


def failed_launch(error: BaseException) -> Outcome:
    """What a launch raised; it may have compiled first."""
    status = _OF_LAUNCHES.get(type(error).__name__, Status.ERROR)
    return Outcome(Status.ERROR if _is_the_machines(error) else status, _reason(error))


def _is_the_machines(error: BaseException) -> bool:
    return any(
        isinstance(one, OSError | MemoryError | KeyboardInterrupt)
        or any(words in str(one) for words in _SHORTAGES)
        for one in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it was raised from."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _reason(error: BaseException) -> str:
    """A sentence of our own stands for itself."""
    named = str(error) if isinstance(error, SkipjackError) else f"{type(error).__name__}: {error}"
    return named[:_LONGEST_REASON]
