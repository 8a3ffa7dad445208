"""Every exception that Skipjack raises on purpose.

SkipjackError                 exit code 1: something failed
├── UsageError                exit code 2: the request itself is wrong; also a ValueError
│   ├── ProblemError          a problem key that cannot be understood or computed
│   ├── SpaceError            a space that is empty or malformed, or a config outside of it
│   ├── ExpressionError       an expression that is not allowed or cannot be evaluated
│   ├── ArgumentTypeError     an argument of a wrong type; also a TypeError
│   └── MissingFileError      a file that was named is not there; also a FileNotFoundError
├── InterruptedRunError       exit code 130: Ctrl-C; the message says how to go on
├── StorageError              a ledger, bank or directory that cannot be used
│   ├── LockTimeoutError      a lock that others held for too long
│   ├── CorruptFileError      set aside under a new name, nothing overwritten
│   ├── StoreAwayError        a database that cannot be reached any more
│   └── NewerFormatError      written by a newer Skipjack, refused by name
├── MalformedError            stored or received data that are not of their form; also a ValueError
├── ScheduleError             an illegal step on a schedule
├── ForeignError              a solver, searcher or operation raised something of its own
├── StepError                 a step of a plan failed; its exit code is the plan's
└── WorkerError               a worker process that died, hung or answered nonsense

A config that fails to build or run is no exception: it is a trial with a status (core.trial).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SkipjackError(Exception):
    """Base of all deliberate errors; the message says what, where, and what to do."""

    exit_code = 1


class UsageError(SkipjackError, ValueError):
    """The request itself is wrong; nothing was started."""

    exit_code = 2


class ProblemError(UsageError):
    """A problem key that cannot be understood or computed here."""


class SpaceError(UsageError):
    """A space that is empty or malformed, or a config that is not in it."""


class ExpressionError(UsageError):
    """An expression with something in it that is not allowed, or that cannot be evaluated."""


class ArgumentTypeError(UsageError, TypeError):
    """An argument of a wrong type."""


class MissingFileError(UsageError, FileNotFoundError):
    """A file that was named is not there."""


class InterruptedRunError(SkipjackError):
    """Ctrl-C ended something that goes on with another command, which the message says."""

    exit_code = 130


class StorageError(SkipjackError):
    """A ledger, bank or directory that cannot be read or written."""


class LockTimeoutError(StorageError):
    """A lock that others still held when the time to wait for it was over."""


class CorruptFileError(StorageError):
    """A file that is damaged; it was set aside under a new name."""


class StoreAwayError(StorageError):
    """A database that was there and cannot be reached any more."""


class NewerFormatError(StorageError):
    """A file written by a newer version; it was left untouched."""


class MalformedError(SkipjackError, ValueError):
    """Stored or received data that are not of their form; whoever reads them may know a remedy."""


class ScheduleError(SkipjackError):
    """A schedule action that is not legal at this point."""


class ForeignError(SkipjackError):
    """Code that was plugged in raised something of its own."""


class StepError(SkipjackError):
    """A step of a plan failed; its exit code is passed on."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class WorkerError(SkipjackError):
    """A worker process that died, hung or broke its protocol."""


@contextmanager
def blaming(what: str | Callable[[], str]) -> Iterator[None]:
    """Turn what foreign code raises into a sentence that names it.

    A function is asked for the name when it is needed.
    """
    try:
        yield
    except (SkipjackError, KeyboardInterrupt):
        raise
    except Exception as error:
        name = what if isinstance(what, str) else what()
        raise ForeignError(f"{name} raised {type(error).__name__}: {error}") from error
