"""Errors that say something about the machine, and nothing about what it was working on."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from subprocess import CalledProcessError, TimeoutExpired

_SHORTAGES = (
    *(errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN),
)
_WORDS = (*map(os.strerror, _SHORTAGES), "out of memory")
"""What tools print when the machine is out of some resource."""
_OF_THE_MACHINE = (OSError, MemoryError, ImportError, KeyboardInterrupt, TimeoutExpired)


def names_shortage(text: str) -> bool:
    """Whether a message says that a disk, memory or another resource of the machine was short."""
    return any(words.lower() in text.lower() for words in _WORDS)


def is_shortage(error: BaseException) -> bool:
    """Whether an error or one of its causes is about the machine: a resource was short, a file or
    package is missing, a program was killed or took too long.
    """
    return any(
        isinstance(one, _OF_THE_MACHINE)
        or (isinstance(one, CalledProcessError) and one.returncode < 0)
        or names_shortage(str(one))
        for one in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
