"""How a command that did not end well failed: the class of it, and one sentence."""

from __future__ import annotations

from skipjack.core.trial import Status
from skipjack.execute.commands import Ended
from skipjack.sweep.outcome import Outcome

_SIGNALS_IN_SHELL = range(129, 160)
"""Exit codes by which a shell says that what it ran was ended by a signal."""
_BUILD = (Status.BUILD_TIMEOUT, Status.BUILD_CRASH, Status.BUILD_ERROR)
_RUN = (Status.TIMEOUT, Status.CRASH, Status.CRASH)


def failure(ended: Ended, *, build: bool) -> Outcome:
    """Of a build command, or of one that runs."""
    what = "the build" if build else "the run"
    late, died, refused = _BUILD if build else _RUN
    reason = f"{what} {ended.describe()}"
    if ended.cause == "timeout":
        status = late
    elif ended.out_of_memory():
        status, reason = Status.OUT_OF_MEMORY, f"{what} ran out of memory: it {ended.describe()}"
    else:
        status = died if ended.code < 0 or ended.code in _SIGNALS_IN_SHELL else refused
    return Outcome(status, reason=reason, seconds=ended.seconds, log=str(ended.output))
