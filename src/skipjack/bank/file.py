"""The file of a bank as it is read: opened again when it changes, by its index where there is one.

What writes is `skipjack.bank.writing`, which a program that only looks things up does not load.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from skipjack.bank.content import Content, PlacedEntry, UnreadLine, complaint
from skipjack.bank.entry import Key
from skipjack.bank.index import Identity, StaleIndexError, identity_of
from skipjack.bank.views import (
    INDEXED_BYTES,
    BankView,
    IndexedView,
    WholeView,
    open_view,
    open_whole,
)
from skipjack.errors import StorageError

RESTORE = "`skipjack bank rebuild` restores it from the ledger"
NEW_COPY = "ask whoever made the file for a new one"
"""What to do about a bank that is somebody else's."""

log = logging.getLogger(__name__)
_complained: set[Path] = set()
"""Files of whose lines this process has complained."""
V = TypeVar("V", bound=BankView)


class BankFile:
    """One for each `Bank`. Several threads may read."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self._writable = writable
        self.view: BankView = nothing()
        """The file as it was when it was last looked at."""

    def kept(self, key: Key) -> list[PlacedEntry]:
        """What is kept of a key, the strongest first, whatever the index says."""
        with self.as_storage_errors():
            try:
                return self._load().kept(key)
            except StaleIndexError as error:
                return self._without_index(error).kept(key)

    def keys_of(self, problem: str) -> set[Key]:
        """Keys of which something is known that have this problem, whatever the index says."""
        with self.as_storage_errors():
            try:
                return self._load().keys_of(problem)
            except StaleIndexError as error:
                return self._without_index(error).keys_of(problem)

    def whole(self) -> Content:
        """All of the file, parsed again only if it changed."""
        with self.as_storage_errors():
            view = self._load()
            if not isinstance(view, WholeView):
                view = self.adopt(open_whole(self.path))
            return view.content

    def identity(self) -> Identity:
        """The state of the file now; `OSError`."""
        return identity_of(self.path.stat())

    def adopt(self, view: V) -> V:
        """Use a view from now on; complain of what cannot be read, once in a process."""
        self.view = view
        if self.path not in _complained and view.identity:
            bad, count = list(view.bad), view.bad_count
            if unfinished := self._unfinished(view):
                bad, count = [*bad, unfinished], count + 1
            if bad:
                _complained.add(self.path)
                remedy = RESTORE if self._writable else NEW_COPY
                log.warning("%s", complaint(self.path, bad, count, remedy))
        return view

    def _unfinished(self, view: BankView) -> UnreadLine | None:
        """The last line if it has no end and that is damage.

        Behind others in the user's bank it is being written, or the next writer tells of it.
        """
        if not view.torn:
            return None
        lines = view.summary().lines
        if self._writable and lines:
            return None
        return UnreadLine(lines + 1, view.torn, "it is cut off before its end", newer=False)

    @contextlib.contextmanager
    def as_storage_errors(self) -> Iterator[None]:
        """Turns an `OSError` while reading into a `StorageError`."""
        try:
            yield
        except OSError as error:
            raise StorageError(f"cannot read the bank {self.path}: {error.strerror}") from error

    def _load(self) -> BankView:
        """The file as it is, opened again only if it changed."""
        view = self.view
        try:
            if self.identity() == view.identity:
                return view
            view = self.adopt(open_view(self.path))
        except FileNotFoundError:
            return self.adopt(nothing())
        self._offer_index(view)
        return view

    def _without_index(self, error: StaleIndexError) -> BankView:
        """All of the file, for which the index is made anew."""
        log.info("the index of %s is made anew: %s", self.path, error)
        view = self.adopt(open_whole(self.path))
        self._offer_index(view)
        return view

    def _offer_index(self, view: BankView) -> None:
        """Leave an index for the next reader, where it is worth it and can be done."""
        if view.identity is None or view.identity[2] < INDEXED_BYTES:
            return
        if view.torn or (isinstance(view, IndexedView) and view.current):
            return
        if self._writable and os.access(self.path.parent, os.W_OK):
            from skipjack.bank.writing import offer_index

            offer_index(self, view)


def nothing() -> WholeView:
    """The view of a file that is not there."""
    return WholeView(None, b"", Content())
