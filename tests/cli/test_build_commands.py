"""``skipjack tune --build-only`` as run by users."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import PATIENCE_S, command, gone, workers_of
from skipjack.cli.main import app
from skipjack.errors import StorageError, UsageError
from skipjack.ledger import Ledger

Skipjack = Callable[..., subprocess.CompletedProcess[str]]


def test_a_table_shows_every_config(skipjack: Skipjack, tmp_path: Path) -> None:
    place = tmp_path / "objects"
    words = ("--device", "haswell/1", "--build-only", "--budget", "3", "-o", str(place))
    done = skipjack("tune", "matmul:64x64x64", *words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("matmul:64x64x64:f32 for haswell/1 by nest: 3 of 3 built in ")
    assert " ".join(lines[1].split()) == "number config status build ms bytes code spills digest"
    assert sum(" ok " in line for line in lines) == 3
    assert len(list(place.glob("*.o"))) == 3


def test_json_has_an_object_for_each_problem(skipjack: Skipjack, user_dir: Path) -> None:
    words = ("--device", "neoverse-n1/64", "--build-only", "--budget", "2", "--json")
    done = skipjack("tune", "add:4096", "softmax:64x64", *words)
    assert done.returncode == 0, done.stderr
    for line, solver in zip(done.stdout.splitlines(), ("nest", "rows"), strict=True):
        record = json.loads(line)
        assert (record["device"], record["solver"]) == ("neoverse-n1/64", solver)
        assert record["triple"] == "aarch64-unknown-linux-gnu"
        assert (record["cpu"], "neon" in record["features"]) == ("neoverse-n1", True)
        assert len(record["builds"]) == 2
        for build in record["builds"]:
            assert build["status"] == "ok"
            assert build["build_ms"] > 0
            assert Path(build["path"]).stat().st_size == build["bytes"] > build["text_bytes"] > 0
            assert Path(build["path"]).name == build["digest"]


def test_a_later_tuning_here_finds_what_was_built(skipjack: Skipjack) -> None:
    words = ("tune", "relu:512", "--json", "--seed", "0", "--budget")
    built = json.loads(skipjack(*words, "24", "--build-only").stdout)
    assert len(built["builds"]) > 4
    tuned = json.loads(skipjack(*words, "4").stdout)
    assert tuned["trials"] == 4
    assert tuned["builds"] == 0


def test_sixteen_configs_are_built_unless_said_otherwise(skipjack: Skipjack) -> None:
    done = skipjack("tune", "sum:64x64/axis=1", "--build-only", "--threads", "2", "--json")
    assert len(json.loads(done.stdout)["builds"]) == 16


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--device haswel/1 --build-only", "did you mean haswell?"),
        ("--device haswel/1", "did you mean haswell?"),
        ("--device a64fx/1", "is not on this machine: its CPU is .* lacks .*--build-only"),
        ("--device gfx900/56 --build-only", "Triton cannot build for gfx900"),
        ("--device haswell --build-only", "arch/units"),
        ("--device haswell/2 --threads 3 --build-only", "--threads says 3"),
        ("--build-only --seconds 3", "--seconds has no effect with --build-only"),
        ("--build-only --retune", "--retune has no effect with --build-only"),
        ("--build-only --searcher genetic", "--searcher has no effect with --build-only"),
        ("--build-only --trace t.json", "--trace has no effect with --build-only"),
        ("--output objects", "--output has no effect without --build-only"),
        ("--build-only --budget 0", "at least 1"),
        ("--build-only --solver packed", "solver packed cannot do add:8"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_started(
    user_dir: Path, words: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        app(["tune", "add:8", *words.split()], standalone_mode=False)
    assert not user_dir.exists()


def test_an_output_that_is_no_directory_is_refused_first(tmp_path: Path, user_dir: Path) -> None:
    (tmp_path / "file").write_text("")
    words = ["tune", "add:8", "--build-only", "-o", str(tmp_path / "file")]
    with pytest.raises(StorageError, match="file: it is not a directory") as caught:
        app(words, standalone_mode=False)
    assert "USER" not in str(caught.value), "it is not about the user directory"
    assert not user_dir.exists()


NOTHING = """
from skipjack import solvers
from skipjack.solvers.cpu.nest_code.solver import NestSolver

class Refusing(NestSolver):
    name = "refusing"

    def compile(self, source):
        raise RuntimeError("this compiler says no")

solvers.register(Refusing())
"""


def test_nothing_built_is_a_failure(skipjack: Skipjack, tmp_path: Path) -> None:
    (tmp_path / "refusing.py").write_text(NOTHING)
    words = ("--plugin", str(tmp_path / "refusing.py"), "--solver", "refusing", "--budget", "2")
    done = skipjack("tune", "add:64", "--build-only", "--device", "haswell/1", *words)
    assert done.returncode == 1
    assert "0 of 2 built" in done.stdout
    assert done.stdout.count("this compiler says no") == 2


def test_ctrl_c_shows_and_keeps_what_was_built(user_dir: Path) -> None:
    words = ("tune", "matmul:300x300x300", "--solver", "packed", "--budget", "5000", "--json")
    process = subprocess.Popen(
        command([*words, "--device", "haswell/1", "--build-only"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        deadline = time.monotonic() + PATIENCE_S
        while kept(user_dir) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        workers = workers_of(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert workers and gone(workers)
    record = json.loads(out)
    assert record["interrupted"]
    assert {build["status"] for build in record["builds"]} == {"ok"}
    assert 2 <= len(record["builds"]) < 5000
    assert kept(user_dir) == len({build["digest"] for build in record["builds"]})


def kept(user_dir: Path) -> int:
    """How many builds the ledger knows."""
    if not (user_dir / "ledger.sqlite").exists():
        return 0
    with Ledger.open(user_dir) as ledger:
        return ledger.summary().builds
