"""What a command says: kept within limits, and passed on line by line."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass

KEPT_BYTES = 4 << 20
"""Of each of a command's two outputs: half of it from the beginning, half from the end."""
LONGEST_LINE = 1 << 16
"""A longer one is passed on in pieces."""


@dataclass(frozen=True, slots=True)
class Line:
    """Something a machine said."""

    machine: str
    stream: str
    """``stdout`` or ``stderr``."""
    text: str
    """Without the end of the line."""


class Output:
    """One of a command's outputs, as its bytes come."""

    def __init__(
        self, machine: str, stream: str, observer: Callable[[Line], None] | None = None
    ) -> None:
        self._machine, self._stream, self._observer = machine, stream, observer
        self._head, self._tail, self._left_out = bytearray(), bytearray(), 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""

    @property
    def text(self) -> str:
        """All of it, or its beginning and its end."""
        head, tail = (bytes(part).decode(errors="replace") for part in (self._head, self._tail))
        if not self._left_out:
            return (bytes(self._head) + bytes(self._tail)).decode(errors="replace")
        return f"{head}\n... {self._left_out} bytes were left out ...\n{tail}"

    def take(self, data: bytes) -> None:
        """What came just now."""
        self._keep(data)
        if self._observer is not None:
            self._pass_on(self._decoder.decode(data))

    def end(self) -> None:
        """Nothing more comes; an unfinished line is one, too."""
        if self._observer is not None:
            self._pass_on(self._decoder.decode(b"", True))
            if self._line:
                self._say(self._line)
                self._line = ""

    def _keep(self, data: bytes) -> None:
        room = KEPT_BYTES // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        excess = len(self._tail) - KEPT_BYTES // 2
        if excess > 0:
            del self._tail[:excess]
            self._left_out += excess

    def _pass_on(self, text: str) -> None:
        *whole, self._line = (self._line + text).split("\n")
        for line in whole:
            self._say(line.removesuffix("\r"))
        while len(self._line) > LONGEST_LINE:
            self._say(self._line[:LONGEST_LINE])
            self._line = self._line[LONGEST_LINE:]

    def _say(self, text: str) -> None:
        assert self._observer is not None
        self._observer(Line(self._machine, self._stream, text))
