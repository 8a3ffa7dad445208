"""All users of a host share the lock of its device."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.core import Device
from skipjack.errors import StorageError
from skipjack.execute import device_lock, slot_lock
from skipjack.storage import FileLock

NOBODY = 65534
TAKE = f"""
import os, sys
from pathlib import Path
from skipjack.storage import FileLock
os.setgid({NOBODY}); os.setuid({NOBODY})
with FileLock(Path(sys.argv[1]), print, public=True, timeout_s=float(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def common(tmp_path: Path) -> Path:
    """A directory like /tmp: all may write, and no one may change files of others."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    for folder in (tmp_path, *tmp_path.parents[:3]):  # test runners in parallel nest deeper
        folder.chmod(folder.stat().st_mode & 0o7777 | 0o055)  # /tmp may be among them
    place = tmp_path / "common"
    place.mkdir()
    place.chmod(0o1777)
    return place


def take_as_another_user(path: Path, timeout_s: float = 20) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TAKE, str(path), str(timeout_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_locks_of_a_host_have_a_folder_of_their_own(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "locks"
    monkeypatch.delenv("SKIPJACK_LOCK_DIR", raising=False)
    monkeypatch.setattr("skipjack.execute.device_locks.SHARED", place)
    for _ in range(2):
        with device_lock(device):
            assert (place / "skipjack-cpu.lock").exists()
    assert stat.S_IMODE(place.stat().st_mode) == 0o1777


def test_the_lock_of_a_device_can_be_written_by_everybody(device: Device, scratch: Path) -> None:
    before = os.umask(0o077)
    try:
        with device_lock(device):
            files = list(scratch.iterdir())
    finally:
        os.umask(before)
    assert "skipjack-cpu.lock" in {file.name for file in files}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o666}


def test_other_locks_are_private(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock"):
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o666, 0o644])
def test_another_user_takes_a_lock_that_we_made(common: Path, mode: int) -> None:
    path = common / "lock"
    with FileLock(path, public=True):
        path.chmod(mode)
        other = take_as_another_user(path)
        assert other.stdout is not None
        said = other.stdout.readline()
        assert f"process {os.getpid()}" in said
    with other:
        assert other.stdout.readline() == "held\n"
        other.communicate("\n")
    assert other.returncode == 0


def test_we_take_a_lock_that_another_user_made(common: Path) -> None:
    path = common / "lock"
    with take_as_another_user(path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        heard: list[str] = []

        def hear(sentence: str) -> None:
            heard.append(sentence)
            assert other.stdin is not None
            other.stdin.close()

        with FileLock(path, hear, public=True, timeout_s=20):
            assert f"process {other.pid}" in heard[0]
    assert path.stat().st_uid == NOBODY


def test_a_link_is_not_followed(common: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    (common / "lock").symlink_to(target)
    with pytest.raises(Exception, match="lock"), FileLock(common / "lock", public=True):
        pass
    assert target.read_text() == "precious"


@pytest.mark.parametrize(
    ("left", "named"),
    [
        (lambda path: os.mkfifo(path, 0o444), "a FIFO"),
        (lambda path: path.mkdir(), "a directory"),
        (lambda path: path.symlink_to("/nowhere"), "a symbolic link"),
        (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), "a socket"),
    ],
    ids=["fifo", "directory", "link", "socket"],
)
def test_what_is_no_lock_is_refused_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    left: Callable[[Path], object],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    left(Path("lock"))
    with pytest.raises(StorageError, match=f"lock cannot be locked: it is {named} .*user"):
        FileLock(Path("lock"), public=True).__enter__()


def test_a_fifo_of_another_user_hangs_nobody(common: Path) -> None:
    os.mkfifo(common / "lock", 0o444)
    with take_as_another_user(common / "lock") as other:
        said, _ = other.communicate("\n", timeout=60)
    assert "it is a FIFO that belongs to user root; have it removed" in said


def test_a_file_with_another_name_is_locked_and_not_written_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "lock").hardlink_to(precious)
    with (
        FileLock(tmp_path / "lock", public=True),
        pytest.raises(StorageError, match="held by another process"),
        FileLock(tmp_path / "lock", public=True, timeout_s=0),
    ):
        pass
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("text", ["[" * 4000, "[]", "7", '{"pid": []}', '{"pid": 1}', "\x00"])
def test_a_holder_that_signed_badly_is_another_process(tmp_path: Path, text: str) -> None:
    with FileLock(tmp_path / "lock"):
        (tmp_path / "lock").write_text(text)
        with pytest.raises(StorageError, match="held by another process"):
            FileLock(tmp_path / "lock", timeout_s=0).__enter__()


def test_a_folder_for_locks_is_made(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_LOCK_DIR", str(tmp_path / "new" / "locks"))
    with device_lock(device):
        assert (tmp_path / "new" / "locks" / "skipjack-cpu.lock").exists()
    assert stat.S_IMODE((tmp_path / "new" / "locks").stat().st_mode) == 0o1777


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_for_locks_that_cannot_be_made_is_named(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SKIPJACK_LOCK_DIR", str(tmp_path / place))
    with pytest.raises(StorageError, match=f"{place}.*set SKIPJACK_LOCK_DIR"), device_lock(device):
        pass


def hold(script: str) -> subprocess.Popen[str]:
    """A process that holds something until its input ends, and says so when it does."""
    text = f"""
import sys
from skipjack.execute import device_lock, slot_lock
from skipjack.native import cpu
with {script}:
    print("held", flush=True)
    sys.stdin.readline()
"""
    return subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def let_go(process: subprocess.Popen[str]) -> None:
    process.communicate("\n")
    assert process.returncode == 0


class HeldElsewhere(Exception):
    """Instead of waiting."""


def refuse(sentence: str) -> None:
    raise HeldElsewhere(sentence)


def test_evaluators_on_different_cores_work_at_once(scratch: Path) -> None:
    with slot_lock("cpu", [0, 1], refuse), slot_lock("cpu", [2], refuse):
        names = {path.name for path in scratch.iterdir()}
    assert names >= {f"skipjack-cpu-{core}.lock" for core in range(3)}


def test_a_core_serves_one_evaluator_at_a_time(scratch: Path) -> None:
    with (
        slot_lock("cpu", [0, 1]),
        pytest.raises(HeldElsewhere, match=r"skipjack-cpu-1\.lock, which process"),
        slot_lock("cpu", [1, 2], refuse),
    ):
        pass
    with slot_lock("cpu", [0, 1, 2], refuse):
        pass  # the one that gave up left nothing held


def test_a_tuning_and_an_evaluator_exclude_each_other(device: Device, scratch: Path) -> None:
    with (
        slot_lock("cpu", [0]),
        pytest.raises(HeldElsewhere, match=f"process {os.getpid()} .* or another process holds"),
        device_lock(device, refuse),
    ):
        pass
    with device_lock(device), pytest.raises(HeldElsewhere), slot_lock("cpu", [0], refuse):
        pass
    with slot_lock("gpu", [0]), device_lock(device, refuse):
        pass  # another kind of device


def test_a_tuning_that_waits_gets_its_turn_before_the_next_job(scratch: Path) -> None:
    first = hold("slot_lock('cpu', [0])")
    assert heard(first) == "held"
    tuning = hold("device_lock(cpu.detect(), lambda text: print(text, flush=True))")
    assert "waiting for" in heard(tuning)
    late = hold("slot_lock('cpu', [1], lambda text: print(text, flush=True))")
    assert "turnstile" in heard(late)
    let_go(first)
    assert heard(tuning) == "held"
    assert late.poll() is None
    let_go(tuning)
    said = heard(late)
    if said != "held":  # it was through the turnstile already, and waited for the host
        said = heard(late)
    assert said == "held"
    let_go(late)


def test_the_locks_of_a_killed_evaluator_are_free(device: Device, scratch: Path) -> None:
    with hold("slot_lock('cpu', [0])") as process:
        assert heard(process) == "held"
        process.kill()
    with device_lock(device, refuse):
        pass
    with slot_lock("cpu", [0], refuse):
        pass
