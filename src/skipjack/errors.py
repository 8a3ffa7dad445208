"""All exceptions that Skipjack raises on purpose.

SkipjackError                 exit code 1: something failed
├── UsageError                exit code 2: the request itself is wrong; also a ValueError
│   ├── ProblemError          a problem key that is malformed or cannot be computed
│   ├── SpaceError            a space that is empty or malformed, or a config outside of it
│   ├── ExpressionError       an expression that is not allowed or cannot be evaluated
│   ├── ArgumentTypeError     an argument of a wrong type; also a TypeError
│   └── MissingFileError      a given file does not exist; also a FileNotFoundError
├── InterruptedRunError       exit code 130: Ctrl-C; the message says how to continue
├── StorageError              a ledger, bank or directory that cannot be used
│   ├── LockTimeoutError      a lock that other processes held for too long
│   ├── CorruptFileError      a damaged file, which was renamed; nothing is overwritten
│   ├── StoreUnavailableError        a database that can no longer be reached
│   └── NewerFormatError      a file written by a newer Skipjack
├── MalformedError            stored or received data with a wrong format; also a ValueError
├── ScheduleError             an illegal step on a schedule
├── ForeignError              an exception raised by a solver, searcher or operation
├── StepError                 a step of a plan failed; its exit code is the plan's
└── WorkerError               a worker process that died, hung or broke its protocol

A config that fails to build or run raises none of these: it is a trial with a status (core.trial).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SkipjackError(Exception):
    """Base class; messages say what happened, where, and what to do."""

    exit_code = 1


class UsageError(SkipjackError, ValueError):
    """The request itself is wrong; nothing was started."""

    exit_code = 2


class ProblemError(UsageError):
    """A problem key that is malformed or cannot be computed on this machine."""


class SpaceError(UsageError):
    """A space that is empty or malformed, or a config that is not in it."""


class ExpressionError(UsageError):
    """An expression that is not allowed or cannot be evaluated."""


class ArgumentTypeError(UsageError, TypeError):
    """An argument of a wrong type."""


class MissingFileError(UsageError, FileNotFoundError):
    """A given file does not exist."""


class InterruptedRunError(SkipjackError):
    """Ctrl-C ended work that can be continued by the command in the message."""

    exit_code = 130


class StorageError(SkipjackError):
    """A ledger, bank or directory that cannot be read or written."""


class LockTimeoutError(StorageError):
    """A lock that other processes still held at the end of the waiting time."""


class CorruptFileError(StorageError):
    """A damaged file; it was renamed, so that a new one can be written."""


class StoreUnavailableError(StorageError):
    """A database that can no longer be reached."""


class NewerFormatError(StorageError):
    """A file written by a newer version; it was not changed."""


class MalformedError(SkipjackError, ValueError):
    """Stored or received data with a wrong format; the caller may know a remedy."""


class ScheduleError(SkipjackError):
    """A schedule action that is illegal at this point."""


class ForeignError(SkipjackError):
    """An exception raised by plug-in code."""


class StepError(SkipjackError):
    """A step of a plan failed; its exit code is passed on."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class WorkerError(SkipjackError):
    """A worker process that died, hung or broke its protocol."""


@contextmanager
def foreign_code(what: str | Callable[[], str]) -> Iterator[None]:
    """Turn exceptions of foreign code into a `ForeignError` that names the code.

    A function is only called for the name if there is an exception.
    """
    try:
        yield
    except (SkipjackError, KeyboardInterrupt):
        raise
    except Exception as error:
        name = what if isinstance(what, str) else what()
        raise ForeignError(f"{name} raised {type(error).__name__}: {error}") from error
