"""Skipjack's processes import its own and installed modules, in any working directory."""

import ast
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import skipjack
from skipjack.execute import WorkerProcess
from skipjack.processes import SECRETS, python_command

ROOT = Path(skipjack.__file__).parent
TRAPS = ("json", "numpy", "skipjack", "socket", "random", "llvmlite", "argparse")

Run = Callable[..., subprocess.CompletedProcess[str]]


def interpreters(tree: ast.AST) -> Iterator[ast.List | ast.Tuple]:
    """Lists of words that begin with an interpreter, or that have a module to run in them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            words = [one.value for one in node.elts if isinstance(one, ast.Constant)]
            first = ast.unparse(node.elts[0]) if node.elts else ""
            if "-m" in words or first == "sys.executable":
                yield node


def test_no_other_place_builds_the_command_line_of_a_python_process() -> None:
    allowed = {
        "processes.py": 1,
        "execute/commands.py": 1,  # a file of ours, isolated and without site-packages (-I -S)
    }
    for path in sorted(ROOT.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        found = [ast.unparse(one) for one in interpreters(ast.parse(path.read_text()))]
        assert len(found) == allowed.get(name, 0), (name, found)


def test_shell_scripts_start_python_with_a_safe_path() -> None:
    for path in ROOT.rglob("*.sh"):
        for line in path.read_text().splitlines():
            assert "python" not in line or " -m " not in line or " -P -m " in line, line


def test_the_command_line_looks_for_no_module_in_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    done = subprocess.run(python_command("mine"), cwd=tmp_path, capture_output=True, check=False)
    assert b"No module named mine" in done.stderr


@pytest.fixture
def trapped(tmp_path: Path, user_dir: Path) -> Run:
    """Runs ``skipjack`` in a directory with files that have the names of modules."""
    place = tmp_path / "shared"
    place.mkdir()
    for name in TRAPS:
        (place / f"{name}.py").write_text(
            f"import pathlib\npathlib.Path({str(place)!r}, 'caught').write_text({name!r})\n"
            "raise SystemExit('caught by a module of the current directory')\n"
        )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            python_command("skipjack", *arguments),
            cwd=place,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not (place / "caught").exists(), (place / "caught").read_text()
        return done

    return run


def succeed(run: Run, commands: Sequence[Sequence[str]]) -> None:
    for words in commands:
        done = run(*words)
        assert done.returncode == 0, (words, done.stderr)


def test_tuning_and_building_run_no_module_of_the_current_directory(trapped: Run) -> None:
    build = ["tune", "add:64", "--device", "haswell/1", "--build-only", "--budget", "1"]
    succeed(trapped, [["tune", "add:64", "--budget", "1"], ["device"], build])


@pytest.mark.long
def test_neither_do_fleets_finds_and_sweeps(trapped: Run, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("add:64\n")
    (tmp_path / "knobs.json").write_text('{"size": [1, 2]}')
    succeed(
        trapped,
        [
            ["import", "-f", str(tmp_path / "list.txt"), "-t", "t"],
            ["load", "-t", "t", "-l", "l", "--budget", "1"],
            ["run", "-l", "l"],
            ["find", "add:64", "--budget", "1"],
            [
                *("sweep", str(tmp_path / "knobs.json"), "--result", "json:result.json"),
                *("--run-cmd", """sh -c 'echo "{\\"speed\\": $size}" > result.json'"""),
                *("--metric", "speed:max"),
            ],
        ],
    )


def test_workers_are_told_nothing_about_the_database_and_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("SKIPJACK_LOG_LEVEL", "warning")
    worker = WorkerProcess("build")
    try:
        words = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
    finally:
        worker.kill()
    assert b"SKIPJACK_LOG_LEVEL=warning" in words
    assert not [word for word in words if b"hunter2" in word]


def test_ray_is_started_elsewhere_than_where_a_job_was_submitted(tmp_path: Path) -> None:
    ray = tmp_path / "stand_in" / "ray" / "scripts"
    ray.mkdir(parents=True)
    for folder in (ray, ray.parent):
        (folder / "__init__.py").touch()
    (ray / "scripts.py").write_text("import os, sys\nprint(os.getcwd(), *sys.argv[1:])\n")
    done = subprocess.run(
        python_command("skipjack.fleet.slurm.ray_node", "start", "--block"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "stand_in"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["/", "start", "--block"]
