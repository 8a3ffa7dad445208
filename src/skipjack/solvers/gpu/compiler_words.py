"""Why a build failed, in one line: the deepest message, without the page of code around it."""

from __future__ import annotations

import os
import re
import stat

from skipjack.errors import SkipjackError

_LONGEST = 300
_MOST_HEARD = 1 << 20
_DIAGNOSTIC = re.compile(r"(?:^|: )error:\s*(.+)|^(LLVM ERROR: .+)", re.MULTILINE)
_ASSEMBLER = re.compile(r"^ptxas .*?(?:error|fatal)\s*:\s*(.+)$", re.MULTILINE)


class GpuBuildError(SkipjackError):
    """A kernel that cannot be built; the message is the reason of its trial."""


class CompilerWords:
    """What the compiler writes to standard error from now on, where that is a file.

    Passes that fail tell Python no more than that they did; what was wrong they print. In a build
    worker standard error is a file, so it can be read without being taken away.
    """

    def __init__(self) -> None:
        self._start = self._size()

    def heard(self) -> str:
        """All of it so far."""
        length = min(_MOST_HEARD, self._size() - self._start)
        if length <= 0:
            return ""
        try:
            return os.pread(2, length, self._start).decode(errors="replace")
        except OSError:
            return ""  # opened for writing alone

    @staticmethod
    def _size() -> int:
        try:
            status = os.fstat(2)
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0


def explain(error: BaseException, words: CompilerWords) -> str:
    """One line for whoever reads a table of trials."""
    chain = _chain(error)
    deepest = chain[-1]
    text = getattr(deepest, "error_message", None) or str(deepest)
    if found := _ASSEMBLER.search(text):
        text = f"ptxas: {found[1]}"
    elif type(deepest) is RuntimeError and (said := _DIAGNOSTIC.search(words.heard())):
        text = said[1] or said[2]
    line = _first_line(text)
    name = type(deepest).__name__
    named = line if not line or getattr(deepest, "error_message", None) else f"{name}: {line}"
    where = _line_of(chain)
    return f"{named or name}{where}"[:_LONGEST]


def _chain(error: BaseException) -> list[BaseException]:
    """Triton wraps an error once for each call between the kernel and where it arose."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _line_of(chain: list[BaseException]) -> str:
    """Counted from the function's first line, as Triton counts."""
    nodes = [getattr(error, "node", None) for error in reversed(chain)]
    number = next(filter(None, (getattr(node, "lineno", None) for node in nodes)), None)
    return f" (line {number} of its function)" if number else ""


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""
