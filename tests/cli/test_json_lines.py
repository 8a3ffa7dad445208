"""Output of ``--json``: one envelope for all commands, and a format in every line."""

import ast
import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import skipjack as package
from skipjack.cli.command_book import command_book
from skipjack.cli.main import app
from skipjack.json_formats import FORMATS

Skipjack = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(package.__file__).parent
RECORDING = {
    "results": [
        {
            "configuration": {"tile": tile},
            "invalidity": "correct",
            "measurements": [{"name": "time", "value": tile, "unit": "ms"}],
        }
        for tile in (1, 2, 4)
    ]
}
FIND_DB = (
    "128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F="
    "miopenConvolutionFwdAlgoGEMM:Gemm,1.5,0,MIOpenGEMM,0_1\n"
)

STORIES = {
    "a problem": """
        tune add:64 --budget 2
        bank list
        bank show add:64
        bank why add:64
        bank rebuild
        bank verify add:64 --seconds 0.5
        bank merge user/bank.jsonl
        bank merge user/bank.jsonl -o union.jsonl
        bank ship user -o site
        bank remove add:64 --dry-run
        bank clean --dry-run
        ledger show add:64
        ledger summary
        ledger gc --dry-run
        ledger merge user/ledger.sqlite
        device
        tune add:64 --build-only --budget 1
    """,
    "a fleet": """
        import -f problems.txt -t few
        import --lists
        problems list
        problems show relu:64
        problems tag relu:64 -t more
        problems untag relu:64 -t more
        store tags
        store info
        load -t few -l L --budget 2
        status
        status -l L
        status -l L --jobs
        job show 1
        abort -l L --yes
        resume -l L
        run -l L --build
        job log 1
        store machines
        bundle export -l L -o jobs.skj
        bundle evaluate jobs.skj -o results.skj
        bundle import results.skj
        bank build -l L
        status -l L --watch
        export perf-db -l L -o shipped --partial
        export kernel-db -o mine.skk
        promote L --into shipped --format skipjack --kinds perf --dry-run --partial
        reset -l L --state evaluated --to new
        store retire relu:64
        fleet status
        fleet down
    """,
    "machines": """
        machine add gpu7 --host 10.0.0.7
        machine list
        machine show gpu7
        machine disable gpu7
        machine enable gpu7
        machine remove gpu7
    """,
    "files": """
        convert-db gfx90878.HIP.fdb.txt -o same.fdb.txt
        check-db gfx90878.HIP.fdb.txt
        compare gfx90878.HIP.fdb.txt --against same.fdb.txt --device gfx908/120
        plan check plan.yaml
        plan show plan.yaml
        plan run plan.yaml --dry-run
        plan run plan.yaml
        export t4 recording.json -o recording_T4.json.gz
        replay recording_T4.json.gz --searchers random --seeds 2
        sweep knobs.json --dry-run
        sweep knobs.json --run-cmd true --result exit --confirm 0
        limits
    """,
    "loops": """
        loops dataset --kind mm --dim-a 16:32:16,16 --dim-b 16,16 -o few
        loops show matmul:16x16x16 --code
        loops search matmul:16x16x16 --method greedy --budget 2 --rates model
        loops measure few --schedules 1 --size 1 -o rates.jsonl
    """,
}
"""Commands in order, with what each of them needs done before."""

DEAR = {
    "find": "ranks all solvers, which takes seconds: test_find_command reads what it prints",
    "export find-db": "needs rankings, as find makes them; prints what export perf-db prints",
    "grid": "builds and runs a benchmark of MLPerf: test_grid_command",
    "doctor": "starts a process for each kernel that it tries: test_commands",
    "machine check": "logs in by ssh: tests/fleet/machines",
    "machine exec": "logs in by ssh: tests/fleet/machines",
    "fleet up": "starts Ray: tests/fleet/machines; prints what fleet status prints",
    **dict.fromkeys(
        ("image build", "image tag", "image push", "image pull", "image login", "image list"),
        "starts a container engine: tests/fleet/images",
    ),
    **dict.fromkeys(
        ("loops train", "loops evaluate", "loops compare"),
        "trains or plays for seconds: tests/cli/test_loops_*",
    ),
    **dict.fromkeys(
        ("learn ranker", "learn heuristic", "learn report"),
        "fits models for seconds: test_learn_command",
    ),
}
"""Commands that are not run here, each with the reason."""

SILENT = {"job log", "ledger gc"}
"""Where there may be nothing to tell, and no line then."""


def lines_of(story: str) -> list[list[str]]:
    return [shlex.split(line) for line in STORIES[story].splitlines() if line.strip()]


def command_of(words: list[str], names: set[str]) -> str:
    first, two = words[0], " ".join(words[:2])
    return two if two in names else first


def with_json() -> set[str]:
    return {name for name, command in command_book(app).items() if command.find("json")}


def test_every_command_with_json_is_run_here_or_says_why_not() -> None:
    names = with_json()
    run = {command_of(words, names) for story in STORIES for words in lines_of(story)}
    assert run | DEAR.keys() == names
    assert not run & DEAR.keys()


@pytest.mark.parametrize("story", STORIES)
def test_every_line_of_json_has_a_format(
    story: str, skipjack: Skipjack, tmp_path: Path, user_dir: Path
) -> None:
    (tmp_path / "problems.txt").write_text("relu:64\n")
    (tmp_path / "knobs.json").write_text('{"batch": [1, 2]}')
    (tmp_path / "plan.yaml").write_text("steps:\n  - store info\n")
    (tmp_path / "gfx90878.HIP.fdb.txt").write_text(FIND_DB)
    (tmp_path / "recording.json").write_text(json.dumps(RECORDING))
    (tmp_path / "shipped").mkdir()
    for words in lines_of(story):
        done = skipjack(*words, "--json", cwd=tmp_path)
        where = f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
        assert done.returncode == 0, where
        lines = done.stdout.splitlines()
        assert lines or command_of(words, with_json()) in SILENT, where
        for line in lines:
            record = json.loads(line)
            assert isinstance(record["format"], int), where


def calls_in(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """The calls of a file by the last part of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            yield (node.func.id if isinstance(node.func, ast.Name) else name), node


@cache
def calls_of_file(path: Path) -> list[tuple[str, ast.Call]]:
    return list(calls_in(ast.parse(path.read_text())))


FILES = sorted(ROOT.rglob("*.py"))
PRINTING = {"print", "echo", "secho", "say", "write"}
MAKING_JSON = {"dumps", "to_json", "envelope"}

ANSWERS = {
    "fleet/machines/node.py": "answers to the coordinator, on a pipe",
    "fleet/machines/probe.py": "answers to the coordinator, on a pipe",
    "fleet/problem_import/importer.py": "writes the file that --report names",
    "execute/command_supervisor.py": "answers to its parent process",
    "plans/progress.py": "writes the file of a plan's progress",
    "native/cpu_probe.py": "answers to its parent process",
    "report/screen.py": "the envelope",
}
"""Files that may print JSON, each with the reason."""

TEXTS = {
    "plans/progress.py": "the file of a plan's progress",
    "report/fleet/jobs.py": "a config in a sentence",
    "report/screen.py": "the envelope",
    "report/sweep/files.py": "cells of runs.csv",
    "report/sweep/summary.py": "settings in a table, and to paste into a config",
}
"""Files next to the command line that make JSON texts for something else than ``--json``."""


def test_json_is_printed_by_the_envelope_alone() -> None:
    printing = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        for name, call in calls_of_file(path)
        if name in PRINTING
        and MAKING_JSON & {inner for each in call.args for inner, _ in calls_in(each)}
    }
    assert printing == ANSWERS.keys(), "print with skipjack.report.print_json"


def test_nothing_else_near_the_command_line_makes_json_texts() -> None:
    near = ("cli/", "app/", "report/", "plans/")
    making = {
        name
        for path in FILES
        if (name := path.relative_to(ROOT).as_posix()).startswith(near)
        for called, _ in calls_of_file(path)
        if called in ("dumps", "dump")
    }
    assert making == TEXTS.keys(), "print with skipjack.report.print_json"


def test_every_kind_of_line_stands_in_the_table_and_is_printed() -> None:
    printed = set()
    for path in FILES:
        for name, call in calls_of_file(path):
            if name == "print_json" and path.name != "render.py":
                kind = call.args[0]
                assert isinstance(kind, ast.Constant), f"{path}: the kind is written out"
                printed.add(kind.value)
    assert printed == FORMATS.keys()
    commands = {*command_book(app)}
    first = {kind.partition(" --")[0] for kind in FORMATS}
    assert first <= commands, "a kind begins with the words of its command"
