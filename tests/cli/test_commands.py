"""Every command as run by users: its output, exit code and files."""

import json
import os
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from processes import PATIENCE_S, command
from skipjack.native import cpu
from verdicts import agrees

Skipjack = Callable[..., subprocess.CompletedProcess[str]]

COMMANDS = (
    *("tune", "find", "device", "doctor", "limits", "bank", "ledger"),
    *("bank list", "bank show", "bank why", "bank rebuild", "bank merge"),
    *("bank remove", "ledger show", "ledger summary", "ledger merge", "ledger gc"),
    *("loops", "loops dataset", "loops show", "loops play", "replay", "export t4"),
)
DOCS = Path(__file__).resolve().parents[2] / "docs"
QUICK = ("--budget", "3")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment in which one problem was tuned."""
    home = tmp_path_factory.mktemp("home")
    (home / "scratch").mkdir()
    environment = {
        **os.environ,
        "SKIPJACK_USER_DB_PATH": str(home / "user"),
        "SKIPJACK_BUILD_WORKERS": "1",
        "TMPDIR": str(home / "scratch"),
        "SKIPJACK_LOCK_DIR": str(home / "scratch"),
    }
    done = run(environment, "tune", "matmul:32x32x32", "--budget", "8", "--json")
    assert done.returncode == 0, done.stderr
    environment["TUNED"] = done.stdout
    yield environment


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(words),
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("words", ["", *COMMANDS])
def test_help_shows_examples_one_a_line(words: str, skipjack: Skipjack) -> None:
    done = skipjack(*words.split(), "--help")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.strip() in ("Example:", "Examples:"))
    shown = [line.strip() for line in lines[start + 1 :] if line.strip()]
    assert shown
    assert all(line.startswith(f"skipjack {words}".strip()) for line in shown)


def test_the_version_is_shown(skipjack: Skipjack) -> None:
    import skipjack as package

    assert skipjack("--version").stdout.split() == ["skipjack", package.__version__]


def test_json_of_a_tuning_has_every_field(tuned: dict[str, str]) -> None:
    (line,) = tuned["TUNED"].splitlines()
    record = json.loads(line)
    assert record["format"] == 2
    assert record["problem"] == "matmul:32x32x32:f32"
    assert record["solver"] == "nest"
    assert record["config"]
    assert agrees(record), record
    assert record["device"].endswith("/1")
    assert record["speedup"] == record["speedups"][record["baseline"]]["ratio"]
    for field in ("time_ns", "default_ns", "vendor_ns", "speedup", "runs", "seconds"):
        assert record[field] > 0, field
    assert 0 < record["builds"] <= 8


def test_a_tuning_shows_a_table(tuned: dict[str, str]) -> None:
    done = run(tuned, "tune", "matmul:32x32x32", *QUICK)
    assert done.returncode == 0
    assert "matmul:32x32x32:f32" in done.stdout
    assert "GFLOP/s" in done.stdout
    assert not done.stderr


def test_every_option_of_tune_together(tuned: dict[str, str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    arch = json.loads(tuned["TUNED"])["device"]
    words = ["add:8", "--dtype", "f64", "--budget", "4", "--seconds", "1", "--searcher", "random"]
    words += ["--seed", "3", "--solver", "nest", "--retune", "--device", arch, "--json"]
    done = run(tuned, "tune", *words, "--trace", str(trace), "--plugin", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["problem"] == "add:8:f64"
    events = json.loads(trace.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {"build", "run"} <= {event["cat"] for event in spans}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    assert {event["tid"] for event in spans} <= {e["tid"] for e in events if e["ph"] == "M"}


def test_problems_come_from_a_file_and_from_stdin(skipjack: Skipjack, tmp_path: Path) -> None:
    listed = tmp_path / "problems.txt"
    listed.write_text("# what we run\n\nadd:8   # small\n  neg:8\nadd:8:f32\n")
    done = skipjack("tune", "-f", str(listed), "abs:8", *QUICK, "--json")
    assert done.returncode == 0, done.stderr
    problems = [json.loads(line)["problem"] for line in done.stdout.splitlines()]
    assert problems == ["abs:8:f32", "add:8:f32", "neg:8:f32"]
    done = skipjack("tune", "-f", "-", *QUICK, "--json", input="add:9\n")
    assert json.loads(done.stdout)["problem"] == "add:9:f32"


def test_commands_of_a_program_s_log_are_tuned_on_their_devices(
    skipjack: Skipjack, tmp_path: Path
) -> None:
    arch, most = cpu.detect().arch, min(2, len(cpu.usable_cores()))
    listed = tmp_path / "cmds.txt"
    listed.write_text(
        f"[0] skipjack tune add:8:f32 --device {arch}/1\n"
        f"[0] skipjack tune add:8:f32 --device {arch}/{most}\n"
        f"[1] skipjack tune add:8:f32 --device {arch}/1\n"
        "WARNING:skipjack.runtime: something else\n"
    )
    done = skipjack("tune", "-f", str(listed), *QUICK, "--retune", "--json")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [result["device"] for result in results] == [
        f"{arch}/{count + 1}" for count in range(most)
    ]
    assert "left out 1 message of Skipjack that names no problem to tune" in done.stderr


def test_the_bank_is_listed_shown_rebuilt_and_merged(
    tuned: dict[str, str], skipjack: Skipjack, user_dir: Path
) -> None:
    listed = run(tuned, "bank", "list", "--json")
    entries = [json.loads(line) for line in listed.stdout.splitlines()]
    assert "matmul:32x32x32:f32" in [entry["problem"] for entry in entries]
    assert "matmul:32x32x32" in run(tuned, "bank", "list").stdout
    shown = run(tuned, "bank", "show", "matmul:32x32x32")
    assert entries[0]["device"] in shown.stdout
    bank = Path(tuned["SKIPJACK_USER_DB_PATH"]) / "bank.jsonl"
    lines = bank.read_bytes().splitlines()
    rebuilt = json.loads(run(tuned, "bank", "rebuild", "--json").stdout)
    nothing = {"new": 0, "replaced": 0, "kept": 0}
    known = len(entries)
    assert rebuilt == {"format": 1, "entries": known, **nothing, "same": known}
    before = bank.read_bytes()
    assert set(before.splitlines()) <= set(lines)
    for new in (known, 0):
        merged = json.loads(skipjack("bank", "merge", str(bank), "--json").stdout)
        assert merged == {"format": 1, "changed": new, **nothing, "new": new, "same": known - new}
    told = skipjack("bank", "merge", str(bank)).stdout
    assert f"0 new, 0 replaced, 0 kept because their evidence is stronger, {known} as" in told
    assert (user_dir / "bank.jsonl").read_bytes() == before


def test_the_page_on_json_lists_the_fields_that_are_printed(tuned: dict[str, str]) -> None:
    def printed(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in run(tuned, *words, "--json").stdout.splitlines()]

    key = "matmul:32x32x32"
    result = json.loads(tuned["TUNED"])
    (entry,) = printed("bank", "show", key)
    study, *_, verdict = printed("ledger", "show", key)
    build = ("tune", key, "--build-only", "--budget", "1", "--device", "haswell/1")
    shown = {
        "tune": [result],
        "a gain": [result["speedups"]["default"], entry["speedups"]["default"]],
        "tune --build-only": printed(*build),
        "bank list": [entry, verdict["entry"]],
        "bank why": printed("bank", "why", key),
        "ledger show: studies": [study],
        "ledger show: verdicts": [verdict],
        "ledger summary": printed("ledger", "summary"),
        "device": printed("device"),
        "doctor": printed("doctor"),
    }
    sections = documented(DOCS / "json.md")
    for name, records in shown.items():
        for record in records:
            assert sections[name] == set(record), name
    # Other tests tune the same problem again, which may replace the entry: not its times.
    shared = ("problem", "device", "device_class", "deployed")
    assert {name: entry[name] for name in shared} == {name: result[name] for name in shared}
    assert entry["speedup"] == entry["speedups"][entry["baseline"]]["ratio"]
    assert entry["protocol"] == study["protocol"] and entry["protocol"]["threads"] == 1


def documented(page: Path) -> dict[str, set[str]]:
    """The names in the first column of a page's tables, by the heading that they stand under."""
    found: dict[str, set[str]] = {}
    for line in page.read_text().splitlines():
        if line.startswith("#"):
            section = found.setdefault(line.lstrip("# ").lower(), set())
        elif line.startswith("| `"):
            section |= set(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return found


def test_what_is_printed_of_an_entry_is_no_bank(tuned: dict[str, str], tmp_path: Path) -> None:
    printed = tmp_path / "printed.jsonl"
    printed.write_text(run(tuned, "bank", "list", "--json").stdout)
    done = run(tuned, "bank", "merge", str(printed))
    assert done.returncode == 1 and "an entry as printed by --json" in done.stderr


def test_the_ledger_is_shown_counted_and_merged(
    tuned: dict[str, str], skipjack: Skipjack, user_dir: Path
) -> None:
    shown = run(tuned, "ledger", "show", "matmul:32x32x32", "--limit", "2")
    assert shown.returncode == 0
    assert "schedule" in shown.stdout
    records = run(tuned, "ledger", "show", "matmul:32x32x32", "--json").stdout.splitlines()
    assert all(json.loads(record) for record in records)
    summary = json.loads(run(tuned, "ledger", "summary", "--json").stdout)
    assert summary["format"] == 1
    assert summary["builds"] > 0
    assert "measurements" in run(tuned, "ledger", "summary").stdout
    ledger = Path(tuned["SKIPJACK_USER_DB_PATH"]) / "ledger.sqlite"
    first, second = (skipjack("ledger", "merge", str(ledger), "--json") for _ in range(2))
    assert json.loads(first.stdout)["rows"] > 0
    assert json.loads(second.stdout) == {"format": 1, "rows": 0, "left_out": []}
    spoilt = user_dir / "spoilt.sqlite"
    spoilt.write_bytes(ledger.read_bytes())
    with closing(sqlite3.connect(spoilt)) as connection, connection:
        connection.execute("UPDATE studies SET seed = ''")
    told = skipjack("ledger", "merge", str(spoilt)).stdout
    assert f" of {spoilt} that cannot be used:\n  studies " in told


def test_the_device_is_described(tuned: dict[str, str]) -> None:
    record = json.loads(run(tuned, "device", "--json").stdout)
    assert record["format"] == 2
    shared = ("device", "device_class")
    assert [record[name] for name in shared] == [json.loads(tuned["TUNED"])[n] for n in shared]
    assert record["arch"] in run(tuned, "device").stdout


def test_the_doctor_finds_nothing_bad(tuned: dict[str, str]) -> None:
    done = run(tuned, "doctor", "--json")
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert findings
    assert done.returncode == any(finding["level"] == "bad" for finding in findings)
    assert run(tuned, "doctor").stdout


def test_the_log_level_comes_from_the_option_or_the_environment(
    tuned: dict[str, str], tmp_path: Path
) -> None:
    plugin = tmp_path / "talks.py"
    plugin.write_text("import logging\nlogging.getLogger('talks').info('heard')\nraise OSError\n")
    for words, variable, heard in (
        ([], "", False),
        ([], "info", True),
        (["--log-level", "debug"], "error", True),
        (["--log-level", "error"], "info", False),
    ):
        environment = {**tuned, "SKIPJACK_LOG_LEVEL": variable}
        done = run(environment, *words, "tune", "add:8", "--plugin", str(plugin))
        assert done.returncode == 2
        assert ("skipjack: INFO: heard" in done.stderr.splitlines()) == heard


def test_a_closed_pipe_is_no_traceback(tuned: dict[str, str]) -> None:
    words = " ".join(command(["bank", "list", "--json"]))
    done = subprocess.run(
        ["bash", "-c", f"{words} | true"], env=tuned, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_output_that_cannot_be_written_is_one_sentence(tuned: dict[str, str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command(["ledger", "summary", "--json"]),
            env=tuned,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["skipjack: No space left on device"]
