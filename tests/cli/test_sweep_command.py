"""``skipjack sweep`` as run by users: real commands, crashes, kills, mistakes."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processes import PATIENCE_S, alive, command, gone

Skipjack = Callable[..., subprocess.CompletedProcess[str]]

RUN = """\
import json, os, pathlib, signal, sys, time
batch, streams = int(os.environ["batch"]), int(sys.argv[1])
with open("runs.txt", "a") as log:
    log.write(f"{batch} {streams}\\n")
fate = os.environ.get("fate", "")
if fate == "crash" and batch == 2:
    os.kill(os.getpid(), signal.SIGSEGV)
if fate == "hang" and batch == 2:
    time.sleep(60)
if fate == "mute" and batch == 2:
    raise SystemExit(0)
time.sleep(float(os.environ.get("nap", "0")))
config = json.loads(pathlib.Path(os.environ["SKIPJACK_CONFIG"]).read_text())
assert config["batch"] == batch and config["streams"] == streams
speed = batch * 10 + streams
pathlib.Path("result.json").write_text(json.dumps({"speed": speed, "watts": {"mean": 5}}))
"""
BUILD = """\
import os, pathlib
with open("builds.txt", "a") as log:
    log.write(os.environ["batch"] + "\\n")
pathlib.Path("engine.txt").write_text(os.environ["batch"])
"""


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """A directory with a benchmark, a base config and a sweep file."""
    place = tmp_path / "bench"
    place.mkdir()
    (place / "run.py").write_text(RUN)
    (place / "build.py").write_text(BUILD)
    (place / "base.json").write_text('{"batch": 1, "streams": 1, "kind": "x"}')
    (place / "knobs.json").write_text('{"batch": [1, 2, 3], "streams": [1, 2]}')
    return place


def arguments(file: str = "knobs.json", **changes: Any) -> list[str]:
    options = {
        "--base": "base.json",
        "--build-cmd": "python build.py",
        "--run-cmd": "python run.py {streams}",
        "--result": "json:result.json",
        "--metric": "speed:max",
        "--no-rebuild": "streams",
        "--confirm": "0",
        **{f"--{name.replace('_', '-')}": value for name, value in changes.items()},
    }
    given = [word for name, value in options.items() if value is not None for word in (name, value)]
    return ["sweep", file, *given]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_the_best_of_all_combinations_with_one_build_each(skipjack: Skipjack, bench: Path) -> None:
    done = skipjack(*arguments(), "--csv", "runs.csv", "--json", cwd=bench)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["format"] == 1 and result["best"] == {"batch": 3, "streams": 2}
    assert result["best_value"] == 32
    assert lines(bench / "builds.txt") == ["1", "2", "3"]
    rows = list(csv.DictReader((bench / "runs.csv").open()))
    assert len(rows) == 6 and {row["status"] for row in rows} == {"ok"}
    assert rows[-1]["speed"] == "32.0" and rows[-1]["watts.mean"] == "5.0"


def test_the_table_names_the_best_and_what_it_gains(skipjack: Skipjack, bench: Path) -> None:
    done = skipjack(*arguments(confirm="2"), "--report", "out", cwd=bench)
    assert done.returncode == 0, done.stderr
    assert "batch" in done.stdout and "2 of 2 confirming runs held" in done.stdout
    assert "2.91" in done.stdout, "32 is so many times the 11 of the base config"
    assert {"result.json", "runs.csv", "report.html"} <= {p.name for p in (bench / "out").iterdir()}


def test_a_report_that_cannot_be_written_is_told_before_anything_runs(
    skipjack: Skipjack, bench: Path
) -> None:
    done = skipjack(*arguments(), "--report", "base.json", cwd=bench)
    assert done.returncode == 1
    assert "cannot use the directory base.json: it is not a directory; give --report" in done.stderr
    assert not lines(bench / "builds.txt")


@pytest.mark.parametrize(
    ("fate", "status"), [("crash", "crash"), ("hang", "timeout"), ("mute", "no_result")]
)
def test_points_that_fail_have_a_class_and_the_others_go_on(
    skipjack: Skipjack, bench: Path, fate: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("fate", fate)
    done = skipjack(*arguments(run_timeout="2"), "--json", cwd=bench)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    failed = [trial for trial in result["trials"] if trial["status"] != "ok"]
    assert [trial["status"] for trial in failed] == [status] * 2
    assert all(trial["point"]["batch"] == 2 and trial["reason"] for trial in failed)
    assert result["best"] == {"batch": 3, "streams": 2}


def test_a_build_that_is_used_again_is_not_made_again(skipjack: Skipjack, bench: Path) -> None:
    (bench / "back.py").write_text(
        "from library import SearcherInterface\n"
        "class Back(SearcherInterface):\n"
        "    is_dynamic = True\n"
        "    def generate(self):\n"
        "        for batch, streams in ((1, 1), (2, 1), (1, 2)):\n"
        "            yield {'batch': batch, 'streams': streams}\n"
        "def META_search_callback(): return Back()\n"
        "def META_get_no_rebuild_params(): return ['streams']\n"
    )
    (bench / "run.py").write_text(
        RUN + "assert pathlib.Path('engine.txt').read_text() == str(batch)\n"
    )
    done = skipjack(*arguments("back.py", no_rebuild=None), "--json", "--no-baseline", cwd=bench)
    assert done.returncode == 0, done.stderr
    assert [trial["status"] for trial in json.loads(done.stdout)["trials"]] == ["ok"] * 3
    assert lines(bench / "builds.txt") == ["1", "2"]


def test_a_killed_sweep_loses_the_run_in_flight_alone(
    skipjack: Skipjack, bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("nap", "0.3")
    process = subprocess.Popen(
        command(arguments()), cwd=bench, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE_S
    while len(lines(bench / "runs.txt")) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    started = children_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert gone(started), "nothing of it goes on"
    before = lines(bench / "runs.txt")
    monkeypatch.setenv("nap", "0")
    done = skipjack(*arguments(), "--json", cwd=bench)
    assert done.returncode == 0, done.stderr
    again = lines(bench / "runs.txt")[len(before) :]
    assert set(before) & set(again) <= {before[-1]}
    assert len(again) <= 6 - (len(before) - 1)
    assert json.loads(done.stdout)["best"] == {"batch": 3, "streams": 2}


def test_ctrl_c_shows_what_is_known_and_goes_on_later(
    skipjack: Skipjack, bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("nap", "0.5")
    process = subprocess.Popen(
        command(arguments()),
        cwd=bench,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE_S
    while len(lines(bench / "runs.txt")) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "run again to continue" in err and "Traceback" not in err
    assert "speed" in out
    monkeypatch.setenv("nap", "0")
    assert skipjack(*arguments(), cwd=bench).returncode == 0


def children_of(pid: int) -> set[int]:
    """All descendants that live."""
    found: set[int] = set()
    fresh = {pid}
    while fresh:
        fresh = {
            int(entry.name)
            for entry in Path("/proc").glob("[0-9]*")
            if _parent(entry) in fresh and int(entry.name) not in found
        }
        found |= fresh
    return {one for one in found if alive(one)}


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base": "nobase.json"}, ["nobase.json", "does not exist"]),
        ({"run_cmd": "./nosuch {streams}"}, ["--run-cmd", "nosuch"]),
        ({"run_cmd": "python run.py {stream}"}, ["--run-cmd", "{stream}", "did you mean streams"]),
        ({"run_cmd": "sh -c 'echo {streams}'"}, ["streams", "environment"]),
        ({"run_cmd": None}, ["--run-cmd"]),
        ({"result": None}, ["--result"]),
        ({"result": "json"}, ["--result", "json"]),
        ({"result": "regex:("}, ["--result"]),
        ({"metric": "sped:max"}, ["sped", "did you mean speed"]),
        ({"metric": "speed"}, ["speed:max"]),
        ({"no_rebuild": "treams"}, ["treams", "no parameter"]),
        ({"searcher": "genetics"}, ["genetics", "did you mean genetic"]),
        ({"require": "sped < 3"}, ["--require", "sped"]),
    ],
)
def test_a_slip_is_one_sentence(
    skipjack: Skipjack, bench: Path, changes: dict[str, Any], words: list[str]
) -> None:
    done = skipjack(*arguments(**changes), cwd=bench)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 2, done.stderr
    assert last.startswith("skipjack: ") and all(word in last for word in words), last
    assert "Traceback" not in done.stderr


def test_a_plan_needs_no_commands(skipjack: Skipjack, bench: Path) -> None:
    done = skipjack(
        *("sweep", "knobs.json", "--base", "base.json", "--no-rebuild", "streams"),
        *("--dry-run", "--json"),
        cwd=bench,
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["product"], plan["runs"], plan["builds"]) == (6, 6, 3)
    assert plan["first"] == {"batch": 1, "streams": 1}
    assert plan["last"] == {"batch": 3, "streams": 2}
    assert len(plan["points"]) == 6
    assert not (bench / "runs.txt").exists()


def test_two_metrics_give_a_front(skipjack: Skipjack, bench: Path) -> None:
    asked = [*arguments(), "--metric", "seconds:min"]
    done = skipjack(*asked, cwd=bench)
    assert done.returncode == 0, done.stderr
    assert "front" in done.stdout.lower() or "pareto" in done.stdout.lower()


def test_nothing_that_works_is_said_by_the_exit_code(skipjack: Skipjack, bench: Path) -> None:
    (bench / "run.py").write_text("raise SystemExit(3)")
    done = skipjack(*arguments(), cwd=bench)
    assert done.returncode == 1
    assert "exit code 3" in done.stdout


def test_the_ledger_shows_sweeps_by_name(skipjack: Skipjack, bench: Path) -> None:
    assert skipjack(*arguments(), cwd=bench).returncode == 0
    shown = skipjack("ledger", "show", "sweep:knobs")
    assert shown.returncode == 0 and "batch=3 streams=2" in shown.stdout and "32" in shown.stdout
    unknown = skipjack("ledger", "show", "sweep:knob")
    assert unknown.returncode == 1 and "has nothing on sweep:knob" in unknown.stderr
