"""One holder at a time, named to processes that wait, released when it dies."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack.errors import StorageError
from skipjack.storage import FileLock

HOLD = """
import sys
from pathlib import Path
from skipjack.storage import FileLock
with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with process:
        yield process
        process.kill()


def test_a_free_lock_is_taken_without_a_word(tmp_path: Path) -> None:
    heard: list[str] = []
    for _ in range(2):
        with FileLock(tmp_path / "lock", heard.append):
            pass
    assert heard == []


def test_who_waits_is_told_once_who_holds_it(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    heard: list[str] = []

    def hear(sentence: str) -> None:
        heard.append(sentence)
        assert holder.stdin is not None
        holder.stdin.close()  # lets the holder end

    with FileLock(tmp_path / "lock", hear):
        assert len(heard) == 1
    assert f"process {holder.pid} ({sys.executable} -c" in heard[0]
    assert str(tmp_path / "lock") in heard[0]


def test_a_timeout_names_the_holder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with (
        pytest.raises(StorageError, match=rf"held by process {holder.pid} .* after 0\.02 seconds"),
        FileLock(tmp_path / "lock", timeout_s=0.02),
    ):
        pass


def test_death_releases_it(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    with FileLock(tmp_path / "lock", timeout_s=20):
        pass


def test_ctrl_c_ends_the_wait(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    def interrupt(sentence: str) -> None:
        threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()

    # A shell that runs the tests in the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), FileLock(tmp_path / "lock", interrupt, timeout_s=20):
            pass
    finally:
        signal.signal(signal.SIGINT, before)


def test_it_is_free_after_an_exception(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), FileLock(tmp_path / "lock"):
        _ = 1 / 0
    with FileLock(tmp_path / "lock", timeout_s=0):
        pass


def test_it_excludes_within_a_process_too(tmp_path: Path) -> None:
    with (
        FileLock(tmp_path / "lock"),
        pytest.raises(StorageError, match=f"process {os.getpid()}"),
        FileLock(tmp_path / "lock", timeout_s=0),
    ):
        pass


def test_a_forked_child_does_not_keep_it(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock"):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # lives until the parent closes its end
            os._exit(0)
        os.close(read)
    try:
        with FileLock(tmp_path / "lock", timeout_s=0):
            pass
    finally:
        os.close(write)
        os.waitpid(child, 0)


def test_a_place_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"), FileLock(tmp_path / "nowhere" / "lock"):
        pass


def test_what_others_wrote_into_it_reaches_no_terminal(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    (tmp_path / "lock").write_text('{"pid": 7, "command": "\\u001b]0;owned\\u0007"}')
    with pytest.raises(StorageError, match="process 7") as caught:
        FileLock(tmp_path / "lock", timeout_s=0.01).__enter__()
    assert str(caught.value).isprintable()


def test_a_lock_whose_file_was_removed_is_not_current(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path) as lock:
        assert lock.is_current
        path.unlink()
        assert not lock.is_current
        path.touch()
        assert not lock.is_current, "that is another file"
    assert not lock.is_current
