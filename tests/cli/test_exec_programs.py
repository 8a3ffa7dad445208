"""PyTorch programs of users under ``skipjack exec`` behave as without it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest

from processes import PATIENCE_S, command, gone

pytest.importorskip("torch")
pytestmark = pytest.mark.long

TRAIN = """
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layer = torch.nn.Linear(24, 16)
    for _ in range(3):
        layer(torch.randn(32, 24)).square().sum().backward()
    print(f"{layer.weight.grad.norm():.3f}")
"""
TUNES = ("--policy", "incremental", "--seconds", "1")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Banks of the test's own."""
    system = tmp_path / "system"
    system.mkdir()
    own = {
        "SKIPJACK_USER_DB_PATH": str(tmp_path / "user"),
        "SKIPJACK_SYSTEM_DB_PATH": str(system),
    }
    return {**os.environ, **own}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where programs run."""
    made = tmp_path / "work"
    made.mkdir()
    return made


def run(
    text: str, options: tuple[str, ...], env: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(dedent(text))
    return subprocess.run(
        command(["exec", *options, "--", sys.executable, "train.py"]),
        **{"env": env, "cwd": folder, "capture_output": True, "text": True},
        timeout=PATIENCE_S,
    )


def results(folder: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("tune_result_*.json"))]


def test_a_program_is_tuned_by_one_run_and_tuned_in_the_next(
    env: dict[str, str], folder: Path
) -> None:
    outputs = [run(TRAIN, options, env, folder) for options in (("--policy", "off"), TUNES, ())]
    assert len({done.stdout for done in outputs}) == 1
    assert [done.returncode for done in outputs] == [0, 0, 0]
    assert outputs[0].stderr == outputs[2].stderr == ""
    (found,) = results(folder)
    assert found["has_ended"]
    names = {row["op"] for row in found["operations"]}  # type: ignore[attr-defined]
    assert names == {"aten::addmm", "aten::mm"}


def test_a_long_program_is_tuned_beside_its_own_work(env: dict[str, str], folder: Path) -> None:
    """Until something was found, however long that takes here."""
    text = f"""
        import time, torch, skipjack.torch
        torch.set_num_threads(1)
        net = torch.nn.Conv2d(8, 16, 3)
        x, until = torch.randn(4, 8, 32, 32), time.monotonic() + {PATIENCE_S / 2}
        while time.monotonic() < until and not skipjack.integrations.torch.activation.report().hits:
            net(x)
        print(skipjack.integrations.torch.activation.report().hits > 0)
    """
    wishes = ("--policy", "incremental", "--seconds", "1", "--background", "--regret", "100%")
    done = run(text, wishes, env, folder)
    assert done.stdout == "True\n", done.stderr


def test_what_is_cleaned_is_gone(env: dict[str, str], folder: Path) -> None:
    run(TRAIN, TUNES, env, folder)
    bank = Path(env["SKIPJACK_USER_DB_PATH"]) / "bank.jsonl"
    assert "matmul:" in bank.read_text()
    done = run(TRAIN, ("--policy", "clean"), env, folder)
    assert done.returncode == 0
    assert "matmul:" not in bank.read_text()


def test_a_program_without_kernels_has_a_result_if_that_is_asked_for(
    env: dict[str, str], folder: Path
) -> None:
    run(TRAIN, ("--policy", "off", "--result"), env, folder)
    (found,) = results(folder)
    assert found["has_ended"] and found["operations"] == []


def test_the_result_of_a_shells_child_has_ended(env: dict[str, str], folder: Path) -> None:
    (folder / "train.py").write_text(dedent(TRAIN))
    line = ["exec", "--result", "--", "sh", "-c", f"{sys.executable} train.py; true"]
    wishes = {"env": env, "cwd": folder, "capture_output": True, "timeout": PATIENCE_S}
    subprocess.run(command(line), **wishes, check=True)
    (found,) = results(folder)
    assert found["has_ended"]


def test_an_exception_is_the_programs_own(env: dict[str, str], folder: Path) -> None:
    text = TRAIN + "    torch.mm(torch.ones(2, 3), torch.ones(4, 5))\n"
    plain, hooked = (run(text, options, env, folder) for options in (("--policy", "off"), ()))
    assert plain.returncode == hooked.returncode == 1
    assert hooked.stderr == plain.stderr
    assert "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)" in hooked.stderr


def test_workers_of_a_data_loader_compute_as_the_program_does(
    env: dict[str, str], folder: Path
) -> None:
    text = """
        import os
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Squares(Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, index):
                a = torch.full((24, 24), float(index))
                return (a @ a)[0, 0], os.getpid(), os.environ["SKIPJACK_TORCH"]

        if __name__ == "__main__":
            a = torch.ones(24, 24)
            a @ a
            for kind in ("fork", "spawn"):
                options = {"num_workers": 2, "multiprocessing_context": kind}
                found = list(DataLoader(Squares(), None, **options))
                assert [float(one) for one, _, _ in found] == [24.0 * n * n for n in range(8)]
                assert os.getpid() not in {pid for _, pid, _ in found}
                print(kind, {hooked for _, _, hooked in found})
    """
    done = run(text, TUNES, env, folder)
    assert (done.returncode, done.stdout) == (0, "fork {'1'}\nspawn {'1'}\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupt_ends_the_program_and_its_searches(env: dict[str, str], folder: Path) -> None:
    (folder / "train.py").write_text(dedent(TRAIN))
    words = command(["exec", "--policy", "incremental", "--seconds", "60"])
    with subprocess.Popen(
        [*words, "--", sys.executable, "train.py"],
        **{"env": env, "cwd": folder, "stderr": subprocess.PIPE, "text": True},
        start_new_session=True,
    ) as process:
        end = time.monotonic() + PATIENCE_S
        searching = set[int]()
        while len(searching) < 2 and process.poll() is None and time.monotonic() < end:
            searching = below(process.pid)  # the process that tunes, and its workers
            time.sleep(0.1)
        assert len(searching) >= 2
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT, errors
        assert errors.rstrip().endswith("KeyboardInterrupt")
    assert gone(searching, 60.0)
    assert all(found["operations"] is not None for found in results(folder))


def below(parent: int) -> set[int]:
    """Children of a process, and theirs."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
    found = {parent}
    while more := {one for one, other in parents.items() if other in found} - found:
        found |= more
    return found - {parent}


@pytest.fixture(params=["a file", "too little room"])
def useless_directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A user directory that takes nothing, and what is said about it."""
    path = tmp_path / "useless"
    if request.param == "a file":
        path.write_text("")
        yield path, "it is not a directory"
    else:
        path.mkdir()
        yield path, "GB free, but SKIPJACK_FREE_DISK requires"


def test_a_user_directory_of_no_use_is_told_and_the_program_goes_on(
    useless_directory: tuple[Path, str], env: dict[str, str], folder: Path
) -> None:
    path, said = useless_directory
    env |= {"SKIPJACK_USER_DB_PATH": str(path), "SKIPJACK_FREE_DISK": "900 TB"}
    if path.is_file():
        env["SKIPJACK_FREE_DISK"] = "0"
    plain, done = (run(TRAIN, options, env, folder) for options in (("--policy", "off"), TUNES))
    assert (done.returncode, done.stdout) == (0, plain.stdout)
    assert said in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("cannot be tuned in this program, which continues untuned") == 1
