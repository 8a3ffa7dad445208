"""Compilers' temporary files are removed after a build, even if it was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.execute.pool.builds import PREFIX, BuildScratch, sweep


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def age(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, (0, 0))


def folders(temporary: Path) -> list[Path]:
    return sorted(temporary.glob(f"{PREFIX}*"))


def test_it_is_there_until_it_is_closed(temporary: Path) -> None:
    scratch = BuildScratch()
    assert folders(temporary) == [Path(scratch.name)]
    (Path(scratch.name) / "tmp1.ptx").write_text("left by a compiler")
    scratch.close()
    assert not folders(temporary)


def test_what_a_killed_process_left_is_swept_by_the_next(temporary: Path) -> None:
    code = (
        "import os, signal\nfrom skipjack.execute.pool.builds import BuildScratch\n"
        "scratch = BuildScratch()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == -signal.SIGKILL
    (left,) = folders(temporary)
    sweep(temporary)
    assert folders(temporary) == [left], "its owner may be about to lock it"
    age(left)
    BuildScratch().close()
    assert not folders(temporary)


def test_a_folder_in_use_is_left_alone_however_old(temporary: Path) -> None:
    scratch = BuildScratch()
    age(Path(scratch.name))
    sweep(temporary)
    assert folders(temporary) == [Path(scratch.name)]
    scratch.close()


def test_folders_of_others_are_left_alone(temporary: Path) -> None:
    (temporary / f"{PREFIX}of-somebody").mkdir()
    sweep(temporary)
    assert len(folders(temporary)) == 1
