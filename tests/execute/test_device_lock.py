"""All users of a host share the lock of its device."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from skipjack.core.device import Device
from skipjack.execute.device_lock import device_lock
from skipjack.storage import FileLock

NOBODY = 65534
TAKE = f"""
import os, sys
from pathlib import Path
from skipjack.storage import FileLock
os.setgid({NOBODY}); os.setuid({NOBODY})
with FileLock(Path(sys.argv[1]), print, shared=True, timeout_s=float(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def common(tmp_path: Path) -> Path:
    """A directory like /tmp: everybody may write, nobody may touch what belongs to others."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
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


def test_the_lock_of_a_device_can_be_written_by_everybody(device: Device, scratch: Path) -> None:
    before = os.umask(0o077)
    try:
        with device_lock(device):
            (file,) = scratch.iterdir()
    finally:
        os.umask(before)
    assert file.name == "skipjack-cpu.lock"
    assert stat.S_IMODE(file.stat().st_mode) == 0o666


def test_other_locks_are_private(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock"):
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o666, 0o644])
def test_another_user_takes_a_lock_that_we_made(common: Path, mode: int) -> None:
    path = common / "lock"
    with FileLock(path, shared=True):
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

        with FileLock(path, hear, shared=True, timeout_s=20):
            assert f"process {other.pid}" in heard[0]
    assert path.stat().st_uid == NOBODY


def test_a_link_is_not_followed(common: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    (common / "lock").symlink_to(target)
    with pytest.raises(Exception, match="lock"), FileLock(common / "lock", shared=True):
        pass
    assert target.read_text() == "precious"
