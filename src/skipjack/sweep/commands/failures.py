"""How a command that did not end well failed: the class of it, and one sentence."""

from __future__ import annotations

from skipjack.core.trial import Status
from skipjack.execute.commands import Ended
from skipjack.sweep.outcome import Outcome

_SIGNALS_IN_SHELL = range(129, 160)
"""Exit codes by which a shell says that what it ran was ended by a signal."""


def build_failure(ended: Ended) -> Outcome:
    """Of a build command."""
    return _failure(
        ended, "the build", Status.BUILD_TIMEOUT, Status.BUILD_CRASH, Status.BUILD_ERROR
    )


def run_failure(ended: Ended) -> Outcome:
    """Of a run command."""
    return _failure(ended, "the run", Status.TIMEOUT, Status.CRASH, Status.CRASH)


def _failure(ended: Ended, what: str, late: Status, died: Status, refused: Status) -> Outcome:
    if ended.cause == "timeout":
        status = late
    elif ended.out_of_memory():
        return Outcome(
            Status.OUT_OF_MEMORY,
            reason=f"{what} ran out of memory: it {ended.describe()}",
            seconds=ended.seconds,
            log=str(ended.output),
        )
    else:
        status = died if ended.code < 0 or ended.code in _SIGNALS_IN_SHELL else refused
    reason = f"{what} {ended.describe()}"
    return Outcome(status, reason=reason, seconds=ended.seconds, log=str(ended.output))
