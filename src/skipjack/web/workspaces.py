"""The workspace that all requests read, in threads beside the one that serves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from skipjack.app.views import Workspace
from skipjack.errors import StorageError

T = TypeVar("T")

READERS = 4
"""Requests that read at the same time; others wait."""


class WorkspaceReaders:
    """Runs functions with the workspace in threads. `close` when the server ends."""

    def __init__(self, open_workspace: Callable[[], Workspace], readers: int = READERS) -> None:
        self._open = open_workspace
        self._readers = readers
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._workspace: Workspace | None = None

    async def run(self, work: Callable[[Workspace], T]) -> T:
        """The result of a function that gets the workspace."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._readers, "skipjack-web")
            threads = self._threads
        return await asyncio.get_running_loop().run_in_executor(threads, self._do, work)

    def _do(self, work: Callable[[Workspace], T]) -> T:
        with self._lock:
            if self._workspace is None:
                self._workspace = self._open()
            workspace = self._workspace
        try:
            return work(workspace)
        except StorageError:
            # The next request opens the files again: a database may be back, or upgraded, by then.
            with self._lock:
                if self._workspace is workspace:
                    self._workspace = None
            raise

    def close(self) -> None:
        """Wait for requests that are being answered, and close the workspace."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(cancel_futures=True)
        with self._lock:
            workspace, self._workspace = self._workspace, None
        if workspace is not None:
            workspace.close()
