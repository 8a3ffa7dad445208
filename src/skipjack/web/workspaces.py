"""The workspace that all requests read, in threads beside the one that serves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from skipjack.app.views import Workspace
from skipjack.errors import StorageError

T = TypeVar("T")

READERS = 4
"""Requests that read at the same time; others wait."""


@dataclass(slots=True)
class _Shared:
    """A workspace and the requests that use it now."""

    workspace: Workspace
    users: int = 0


class WorkspaceReaders:
    """Runs functions with the workspace in threads. `close` when the server ends."""

    def __init__(self, open_workspace: Callable[[], Workspace], readers: int = READERS) -> None:
        self._open = open_workspace
        self._readers = readers
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._shared: _Shared | None = None

    async def run(self, work: Callable[[Workspace], T]) -> T:
        """The result of a function that gets the workspace."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._readers, "skipjack-web")
            threads = self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, self._do, work)

    def _do(self, work: Callable[[Workspace], T]) -> T:
        with self._used() as shared:
            try:
                return work(shared.workspace)
            except StorageError as error:
                # The next request opens the database again: it may be back, or upgraded, by then.
                if shared.workspace.is_of_store(error):
                    self._drop(shared)
                raise

    @contextmanager
    def _used(self) -> Iterator[_Shared]:
        """The workspace; one that was dropped is closed when its last user returns."""
        with self._lock:
            if self._shared is None:
                self._shared = _Shared(self._open())
            shared = self._shared
            shared.users += 1
        try:
            yield shared
        finally:
            with self._lock:
                shared.users -= 1
                over = shared.users == 0 and shared is not self._shared
            if over:
                shared.workspace.close()

    def _drop(self, shared: _Shared) -> None:
        with self._lock:
            if self._shared is shared:
                self._shared = None

    def close(self) -> None:
        """Wait for requests that are being answered, and close the workspace."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)
        with self._lock:
            shared, self._shared = self._shared, None
        if shared is not None:
            shared.workspace.close()
