"""What the system bank is measured from, and how it comes back from a machine that is lent."""

import tarfile
from pathlib import Path

import pytest

from skipjack.bank import Bank, BankEntry, LaunchData
from skipjack.devices import describe
from skipjack.native import cpu
from skipjack.settings import load_settings
from skipjack.solvers import solver_for
from skipjack.storage import ArtifactStore
from system_bank import measure, pack, problems_of


@pytest.mark.parametrize(("kind", "device"), [("cpu", "x86-64-v3/1"), ("gpu", "sm_90/132")])
def test_every_problem_of_the_lists_has_a_solver(kind: str, device: str) -> None:
    asked = problems_of(kind)
    assert len(asked) > 50 and len(set(asked)) == len(asked)
    for problem in asked:
        assert solver_for(problem, describe(device), None)


def _entry(key: str, launch: LaunchData | None = None) -> BankEntry:
    device = cpu.detect()
    named = device.class_key, device.name
    return BankEntry(key, *named, "nest", 1, {}, 1.0, 2.0, None, "", {}, launch=launch)


def test_what_is_packed_is_a_user_directory_again(tmp_path: Path) -> None:
    user = tmp_path / "user"
    digest = ArtifactStore(user / "artifacts").put(b"machine code")
    Bank.open(user).put(_entry("add:8:f32", LaunchData(digest)))
    pack(load_settings(user_dir=user), tmp_path / "packed.tar.gz")
    with tarfile.open(tmp_path / "packed.tar.gz") as archive:
        archive.extractall(tmp_path / "back", filter="data")
    assert Bank.open(tmp_path / "back").entries() == Bank.open(user).entries()
    assert ArtifactStore(tmp_path / "back" / "artifacts").get(digest) == b"machine code"


def test_a_run_goes_on_with_what_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Bank.open(tmp_path).add(_entry(one.key) for one in problems_of("cpu"))
    measure("cpu", load_settings(user_dir=tmp_path), 1.0, 10.0, 5)
    assert ", 0 to tune" in capsys.readouterr().out
