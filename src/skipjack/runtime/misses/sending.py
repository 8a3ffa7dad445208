"""Missed problems become jobs of the fleet: a process that is started for it talks to the store.

It sends all that the file has and the store does not, so that what one program could not send
another does. It outlives the program, and one of a host works at a time.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import subprocess
import threading
from pathlib import Path

from skipjack.children import python_command
from skipjack.errors import SkipjackError
from skipjack.runtime.misses.file import MissFile
from skipjack.runtime.warning_once import warn_once
from skipjack.storage import FileLock

log = logging.getLogger(__name__)

MODULE = "skipjack.fleet.importing.miss_sender"
_GATHER_S = 0.2
"""A program that begins misses many problems at once."""


class FleetSender:
    """Of one user directory and process."""

    def __init__(self, user_dir: Path) -> None:
        self._user_dir = user_dir
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def send(self) -> None:
        """Have what is in the file sent soon; the caller does not wait."""
        self._wanted.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="skipjack misses", daemon=True
                )
                self._thread.start()
                atexit.register(self._at_exit)

    def _run(self) -> None:
        pause = threading.Event()
        while self._wanted.wait():
            pause.wait(_GATHER_S)
            self._wanted.clear()
            try:
                said = self._sent()
            except (SkipjackError, OSError) as error:
                said = str(error)
            if said:
                warn_once(log, f"missed problems do not reach the fleet: {said}", about="sending")

    def _sent(self) -> str:
        """Send what nobody has sent yet; gives why that failed."""
        with FileLock(self._user_dir / "misses-sending.lock"):
            if all(one.sent for one in MissFile(self._user_dir).missed()):
                return ""
            child = self._start(subprocess.PIPE)
            said = child.communicate()[1].decode(errors="replace").strip()
            return said.splitlines()[-1] if said and child.returncode else ""

    def _start(self, errors: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            python_command(MODULE, str(self._user_dir)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )

    def _at_exit(self) -> None:
        if self._wanted.is_set():
            with contextlib.suppress(OSError):  # the next program sends them
                self._start(subprocess.DEVNULL)
