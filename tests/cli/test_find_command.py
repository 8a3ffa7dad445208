"""``skipjack find`` as run by users."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from processes import PATIENCE_S, command, gone, workers_of
from skipjack.ledger import Ledger
from verdicts import agrees

Skipjack = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], str]]:
    """An environment in which problems were ranked, and what was printed."""
    home = tmp_path_factory.mktemp("home")
    (home / "scratch").mkdir()
    environment = {
        **os.environ,
        "SKIPJACK_USER_DB_PATH": str(home / "user"),
        "SKIPJACK_BUILD_WORKERS": "1",
        "TMPDIR": str(home / "scratch"),
        "SKIPJACK_LOCK_DIR": str(home / "scratch"),
    }
    listed = home / "list.txt"
    listed.write_text("matmul:16x24x8  # small\nMIOpenDriver convint8 -n 1 -c 8 -H 8 -W 8 -F 1\n")
    words = ["find", "-f", str(listed), "add:64", "--budget", "6", "--json"]
    done = run(environment, *words)
    assert done.returncode == 0, done.stderr
    yield environment, done.stdout


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(words),
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_every_problem_is_one_line_in_order(found: tuple[dict[str, str], str]) -> None:
    records = [json.loads(line) for line in found[1].splitlines()]
    assert [record["problem"] for record in records][:2] == ["add:64:f32", "matmul:16x24x8:f32"]
    for record in records:
        assert record["format"] == 2
        assert record["device"].endswith("/1")
    last = records[-1]
    assert (last["status"], last["solvers"]) == ("not_applicable", [])
    assert last["reason"]


def test_solvers_are_ranked_with_time_workspace_config_and_status(
    found: tuple[dict[str, str], str],
) -> None:
    record = json.loads(found[1].splitlines()[1])
    assert record["status"] == "ok"
    order = {"ok": 0, "not_applicable": 2}
    statuses = [order.get(solver["status"], 1) for solver in record["solvers"]]
    assert statuses == sorted(statuses)
    ranked = [solver for solver in record["solvers"] if solver["status"] == "ok"]
    assert [s["time_ns"] for s in ranked] == sorted(s["time_ns"] for s in ranked)
    assert all(solver["workspace_bytes"] >= 0 for solver in ranked)
    by_name = {solver["solver"]: solver for solver in record["solvers"]}
    assert by_name["numpy"]["config"] == {}
    assert by_name["nest"]["config"]
    assert by_name["rows"]["time_ns"] is None
    assert by_name["rows"]["reason"]
    assert agrees(record["verdict"]), record["verdict"]
    assert record["seconds"] > 0


def test_a_person_sees_a_table(found: tuple[dict[str, str], str]) -> None:
    environment, _ = found
    done = run(environment, "find", "add:64", "--budget", "2", "--solver", "nest")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("add:64:f32 on ")
    assert "workspace" in done.stdout
    assert not done.stderr


def test_the_bank_shows_and_rebuilds_what_was_found(found: tuple[dict[str, str], str]) -> None:
    environment, _ = found
    shown = run(environment, "bank", "show", "matmul:16x24x8")
    assert "solvers of matmul:16x24x8:f32" in shown.stdout
    assert "find" in run(environment, "bank", "list").stdout
    bank = Path(environment["SKIPJACK_USER_DB_PATH"]) / "bank.jsonl"
    before = bank.read_bytes().splitlines()
    assert run(environment, "bank", "rebuild").returncode == 0
    assert set(bank.read_bytes().splitlines()) <= set(before)


def test_every_option_together(found: tuple[dict[str, str], str], tmp_path: Path) -> None:
    environment, printed = found
    trace = tmp_path / "trace.json"
    device = json.loads(printed.splitlines()[0])["device"]
    words = ["neg:8", "--dtype", "f64", "--budget", "2", "--seconds", "1", "--searcher", "random"]
    words += ["--seed", "3", "--solver", "nest", "--solver", "numpy", "--retune", "--json"]
    words += ["--device", device, "--trace", str(trace), "--plugin", "json", "--threads", "1"]
    done = run(environment, "find", *words)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["problem"] == "neg:8:f64"
    assert {solver["solver"] for solver in record["solvers"]} == {"nest", "numpy"}
    assert json.loads(trace.read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("find", "no problem given"),
        ("find add:8 --solver wizard", "unknown solver"),
        ("find add:8 --seconds 0", "0 seconds"),
        ("find add:8 --direction wrw", "has no effect"),
        ("find add:8 --trace /nowhere/at/all.json", "no directory"),
    ],
)
def test_a_wrong_request_is_one_sentence(words: str, said: str, skipjack: Skipjack) -> None:
    done = skipjack(*words.split())
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line


def test_a_problem_too_large_for_the_machine_does_not_stop_a_list(skipjack: Skipjack) -> None:
    large = "matmul:200000x200000x200000"
    done = skipjack("find", large, "MIOpenDriver pool", "--json")
    assert done.returncode == 0
    record, _ = map(json.loads, done.stdout.splitlines()[:2])
    assert (record["status"], record["solvers"]) == ("not_applicable", [])
    assert "GiB" in record["reason"]
    alone = skipjack("find", large, "--json")
    assert alone.returncode == 2
    assert "GiB" in alone.stderr


def test_ctrl_c_ranks_what_is_known(user_dir: Path) -> None:
    words = ["find", "matmul:96x96x96", "add:8", "--seconds", "60", "--json"]
    process = subprocess.Popen(
        command(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while tells(user_dir) < 12:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            workers = workers_of(process.pid)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 130
    (line,) = out.splitlines()
    record = json.loads(line)
    assert record["interrupted"]
    assert [s for s in record["solvers"] if s["status"] == "ok"]
    assert err.splitlines()[-1].startswith("skipjack: interrupted")
    assert gone(workers)
    bank = (user_dir / "bank.jsonl").read_text()
    assert '"kind":"find"' not in bank, "a ranking that was not finished is not kept"


def tells(user_dir: Path) -> int:
    if not (user_dir / "ledger.sqlite").exists():
        return 0
    with Ledger.open(user_dir) as ledger:
        return ledger.summary().tells
