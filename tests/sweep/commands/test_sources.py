"""Which files of a working directory are sources: those that neither builds nor runs write."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from shell_bench import APART, READ_APART, Make, values

from skipjack.sweep.commands import ResultReader, snapshots
from skipjack.sweep.commands.sources import SourceTracker, result_patterns

Open = Callable[..., SourceTracker]


@pytest.fixture
def opened(work: Path, tmp_path: Path) -> Open:
    for name in ("main.c", "data.json", "Dockerfile"):
        (work / name).write_text("one")
    return lambda *exclude: SourceTracker(work, tmp_path / "memory", exclude)


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def sitting(watch: SourceTracker, *rounds: Callable[[], object]) -> str:
    """Each round is a run that writes something."""
    watch.begin()
    for write_files in rounds:
        write_files()
        watch.note_changes(now=True)
    watch.close()
    return watch.digest()


@pytest.mark.parametrize("name", ["main.c", "data.json", "Dockerfile", "new.yaml", "new/table.txt"])
def test_every_file_is_a_source_whatever_it_is_called(opened: Open, work: Path, name: str) -> None:
    first = opened().digest()
    assert first == opened().digest()
    write(work / name, "edited")
    assert opened().digest() != first


@pytest.mark.parametrize(
    "name", [".git/x", "env/lib/x.py", "a/__pycache__/x", ".main.c.swp", "README.md"]
)
def test_what_tools_write_is_none(opened: Open, work: Path, name: str) -> None:
    write(work / "env/pyvenv.cfg")
    first = opened().digest()
    write(work / name)
    assert opened().digest() == first


def test_what_appears_while_a_sweep_runs_is_none_from_the_start(opened: Open, work: Path) -> None:
    first = sitting(opened(), lambda: write(work / "out/a.log"), lambda: write(work / "run.cfg"))
    write(work / "out/b.log")
    write(work / "run.cfg", "another")
    assert opened().digest() == first
    write(work / "data.json", "edited")
    assert opened().digest() != first


def test_what_every_run_overwrites_is_none_though_it_was_there(opened: Open, work: Path) -> None:
    write(work / "runs.txt", "old")
    write(work / "state.tmp")
    first = sitting(
        opened(),
        lambda: (write(work / "runs.txt", "old 1"), (work / "state.tmp").unlink()),
        lambda: (write(work / "runs.txt", "old 1 2"), write(work / "state.tmp", "again")),
    )
    assert opened().digest() == first


def test_what_is_edited_now_and_then_while_a_sweep_runs_is_a_source(
    opened: Open, work: Path
) -> None:
    def edit() -> None:
        write(work / "data.json", f"{(work / 'data.json').read_text()}.")

    first = sitting(opened(), edit, lambda: None, lambda: None, edit)
    second = sitting(opened(), lambda: None, edit)
    assert len({first, second, opened().digest()}) == 3


def test_code_is_a_source_unless_builds_write_it(opened: Open, work: Path) -> None:
    rounds = [lambda text=text: write(work / "main.c", text) for text in ("1", "12", "123")]
    first = sitting(opened(), *rounds)
    second = opened()
    assert second.digest() != first
    second.begin()
    second.wrote(["main.c", "config.h"])
    write(work / "config.h", "by a build, and new")
    assert opened().digest() == second.digest()
    write(work / "main.c", "edited while something was built")
    assert opened().digest() != second.digest()
    second.wrote(["main.c", "config.h"])
    write(work / "main.c", "by each build")
    assert opened().digest() == second.digest()


def test_code_in_a_new_directory_is_a_source(opened: Open, work: Path) -> None:
    first = sitting(opened(), lambda: write(work / "kernels/fast.cu"))
    assert opened().digest() != first


def test_paths_and_patterns_that_are_named_are_none(opened: Open, work: Path) -> None:
    exclude = (work / "out", "result_*.json", Path("knobs.py"), Path("/elsewhere"))
    first = opened(*exclude).digest()
    for name in ("out/a/b", "result_3.json", "knobs.py"):
        write(work / name)
        assert opened(*exclude).digest() == first
    write(work / "outer")
    assert opened(*exclude).digest() != first


def test_a_killed_sitting_loses_nothing(opened: Open, work: Path) -> None:
    killed = opened()
    killed.begin()
    write(work / "runs.txt", "1")
    assert opened().digest() == killed.digest()
    write(work / "main.c", "edited")
    assert opened().digest() != killed.digest()


def test_what_we_print_into_is_none(opened: Open, work: Path, tmp_path: Path) -> None:
    code = (
        "import pathlib, sys; from skipjack.sweep.commands.sources import SourceTracker as Watch\n"
        "print(Watch(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])).digest())\n"
    )
    found = set()
    for extra in ("", "print('more')"):
        command = [sys.executable, "-c", code + extra, str(work), str(tmp_path / "memory")]
        with (work / "printed").open("w") as file:
            subprocess.run(command, stdout=file, check=True)
        found.add((work / "printed").read_text().split()[0])
    assert len(found) == 1


def test_asking_writes_nothing(opened: Open, tmp_path: Path) -> None:
    opened().digest()
    opened().close()
    assert not (tmp_path / "memory").exists()


def test_memory_that_is_damaged_is_forgotten(opened: Open, tmp_path: Path) -> None:
    first = sitting(opened())
    for text in ("{", "[]", '{"format": 1, "written": 3}'):
        (tmp_path / "memory/written.json").write_text(text)
        assert opened().digest() == first


def test_of_a_huge_directory_nothing_is_known(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "MOST_FILES", 1)
    watch = opened()
    assert sitting(watch) == ""
    assert "contains more than 1 files" in watch.note


@pytest.mark.parametrize(
    ("result", "patterns"),
    [
        ("json:out/result.json", ("out/result.json",)),
        ("json:./r_{batch}.json", ("r_*.json",)),
        ("json:-", ()),
        ("loadgen:logs", ("logs",)),
        ("loadgen:.", ("mlperf_log_*",)),
        ("loadgen:{run_dir}/logs", ()),
        ("exit", ()),
    ],
)
def test_where_results_are(result: str, patterns: tuple[str, ...]) -> None:
    assert result_patterns(ResultReader.parse(result)) == patterns


# in a bench


def test_what_runs_write_costs_no_build_and_what_is_edited_does(make: Make, work: Path) -> None:
    write(work / "data.json", "{}")
    write(work / "result.json", '{"value": 0}')
    run = f'{READ_APART}; echo $batch > last.cfg; echo ran >> log; echo "{{\\"value\\": $engine}}"'
    options = {"result": ResultReader.parse("json:result.json")}
    for builds in (2, 0, 0):
        bench = make(f"({run}) | tail -n 1 > result.json", APART, **options)
        assert values(bench, 1, 2) == [1, 2]
        assert bench.builds == builds
    write(work / "data.json", '{"edited": true}')
    bench = make(f"({run}) | tail -n 1 > result.json", APART, **options)
    values(bench, 1, 2)
    assert bench.builds == 2


def test_another_compiler_builds_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    values(make(READ_APART, APART), 1)
    for name, text in (("CC", "clang"), ("CXXFLAGS", "-O1"), ("MAKEFLAGS", "-j3")):
        monkeypatch.setenv(name, text)
        bench = make(READ_APART, APART)
        values(bench, 1)
        assert bench.builds == (0 if name == "MAKEFLAGS" else 1)
