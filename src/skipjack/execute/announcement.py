"""How a run worker says which kernel it launches next: a page that its parent sees too.

The page holds the kernel's number and a count that grows with every launch, so that a parent can
tell a worker that is slow from one that is stuck.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile

_PAGE = struct.Struct("<qq")
NOTHING = -1
"""No kernel is running."""


class Announcement:
    """One side's view of the page. It has no name, so nothing is left whoever dies."""

    def __init__(self, descriptor: int | None = None) -> None:
        """The parent's side makes the page; a worker's opens the descriptor that it inherited."""
        if descriptor is None:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
            os.pwrite(self.descriptor, _PAGE.pack(NOTHING, 0), 0)
        else:
            self.descriptor = descriptor
        self._page = mmap.mmap(self.descriptor, _PAGE.size)

    def announce(self, kernel: int) -> None:
        """Say what is about to run."""
        _PAGE.pack_into(self._page, 0, kernel, self.count + 1)

    @property
    def kernel(self) -> int:
        """What was announced last."""
        return int(_PAGE.unpack_from(self._page)[0])

    @property
    def count(self) -> int:
        """How often anything was announced."""
        return int(_PAGE.unpack_from(self._page)[1])

    def close(self) -> None:
        """Let go of the page."""
        self._page.close()
        os.close(self.descriptor)
