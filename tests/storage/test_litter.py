"""Files of killed writers are removed by the next writer, and nothing else is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skipjack.core import Device
from skipjack.ledger import Ledger
from skipjack.settings import Settings
from skipjack.storage import ArtifactStore, sweep, temporary_folder, temporary_name, user_directory

KILL = "import os, signal, sys\nfrom pathlib import Path\n"
DIE = "os.kill(os.getpid(), signal.SIGKILL)"
IN_BANK = f"""{KILL}
from skipjack.storage import atomic_replacement
with atomic_replacement(Path(sys.argv[1]) / 'bank.jsonl') as temporary:
    temporary.write_text('half')
    {DIE}
"""
IN_ARTIFACT = f"""{KILL}
from skipjack.storage import ArtifactStore, files as atomic
atomic.write_synced = lambda path, data, **_: (path.write_bytes(data[:1]), {DIE})
ArtifactStore(Path(sys.argv[1]) / 'artifacts').put(b'code')
"""
IN_MERGE = f"""{KILL}
from skipjack.ledger import Ledger, union as merge
merge._union = lambda connection: {DIE}
with Ledger.open(Path(sys.argv[1])) as ledger:
    ledger.merge(Path(sys.argv[2]))
"""


def killed(script: str, *arguments: Path) -> None:
    done = subprocess.run([sys.executable, "-c", script, *arguments], check=False)
    assert done.returncode == -signal.SIGKILL


def litter(directory: Path) -> list[Path]:
    return [path for path in directory.rglob(".*") if path.name.endswith(".tmp")]


def make_old(*paths: Path, ago_s: float = 7200) -> None:
    before = time.time() - ago_s
    for path in paths:
        os.utime(path, (before, before))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "other") as ledger:
        ledger.add_device(Device("cpu", "znver4", 1))
    return ledger.path


@pytest.mark.parametrize(
    "script", [IN_BANK, IN_ARTIFACT, IN_MERGE], ids=["bank", "artifact", "merge"]
)
def test_what_a_killed_writer_leaves_is_swept_by_the_next(
    tmp_path: Path, other: Path, script: str
) -> None:
    mine = user_directory(Settings(tmp_path / "mine"))
    killed(script, mine, other)
    (left,) = litter(mine)
    user_directory(Settings(mine))
    ArtifactStore(mine / "artifacts").put(b"more")
    assert litter(mine) == [left]  # it is young: a writer on another host may be at it
    make_old(left)
    user_directory(Settings(mine))
    ArtifactStore(mine / "artifacts").put(b"more")
    assert litter(mine) == []


def test_a_folder_of_an_earlier_version_is_swept(tmp_path: Path) -> None:
    folder = tmp_path / ".merge-4y97cq7j"
    folder.mkdir()
    (folder / "other.sqlite").write_text("")
    make_old(folder)
    sweep(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize(("ahead_s", "stays"), [(60, True), (86400, False)])
def test_what_is_dated_in_the_future_is_swept(tmp_path: Path, ahead_s: float, stays: bool) -> None:
    left, own = tmp_path / ".bank.jsonl.4000000-00000000.tmp", temporary_name(tmp_path / "slow")
    for path in (left, own):
        path.write_text("")
        make_old(path, ago_s=-ahead_s)
    sweep(tmp_path)
    assert own.exists(), "its writer lives"
    assert left.exists() is stays


def test_what_lives_or_is_somebody_elses_stays(tmp_path: Path) -> None:
    own = temporary_name(tmp_path / "slow")
    names = [own.name, ".hidden", ".notes.tmp", "bank.jsonl.1-00000000.tmp", ".x.999-xyz.tmp"]
    for name in names:
        (tmp_path / name).write_text("")
        make_old(tmp_path / name)
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names)


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    place = tmp_path / "place"
    place.mkdir()
    link = place / ".merge.4000000-00000000.tmp"
    link.symlink_to(precious)
    os.utime(link, (0, 0), follow_symlinks=False)
    sweep(place)
    assert not link.is_symlink()
    assert (precious / "file").read_text() == "mine"


def test_a_folder_is_gone_at_the_end(tmp_path: Path) -> None:
    with temporary_folder(tmp_path, "merge") as folder:
        (folder / "file").write_text("")
    assert list(tmp_path.iterdir()) == []
