"""A new export format is one class in a plug-in: exported, compared and promoted by its name."""

import sys
from pathlib import Path

import pytest
from made_up import CONV, CPU, add_job, row

from skipjack import plugins
from skipjack.cli.main import app
from skipjack.errors import UsageError
from skipjack.fleet.model import JobKind, JobPlan
from skipjack.fleet.release import formats
from skipjack.fleet.release.formats import ExportFormat
from skipjack.fleet.store import Store

PLUGIN = """
import csv
from functools import partial

from skipjack.fleet.release.formats import (
    FIND_DB, Contents, ExportFormat, GatheredRankings, KeyedFile, ReleaseFile, base_name, register
)
from skipjack.fleet.release.results import FoundProblem, RankedEntry, ranked


def read(path):
    with path.open(newline="") as file:
        return [((problem, solver), (device, problem, solver, time))
                for device, problem, solver, time in csv.reader(file)]


def write(path, rows, like=None):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


class Csv(ExportFormat):
    name = "csv"
    keyed = (KeyedFile((".find.csv",), read, write, lambda old, new: old == new),)

    def find_endings(self, backend="HIP"):
        return (".find.csv",)

    def find(self, found, options):
        gathered = GatheredRankings()
        files = []
        for problem in gathered.of(found):
            rows = [(problem.device, problem.problem, one.solver, one.time_ns)
                    for one in problem.ranking[: options.top]]
            files.append(ReleaseFile(
                problem.device,
                lambda device: f"{base_name(device)}.find.csv",
                lambda path, device, rows=rows: write(path, rows),
                {"entries": len(rows)},
            ))
        return Contents(FIND_DB, self.name, tuple(files), gathered.counts())

    def read_find(self, path, skipped):
        for _, (device, problem, solver, time) in read(path):
            yield FoundProblem(problem, None, device, ranked([RankedEntry(solver, float(time))]))


register(Csv())
"""


@pytest.fixture
def csv_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shelf: Store) -> Store:
    """A label with one find, and the plug-in named as users name one."""
    path = tmp_path / "csv_format.py"
    path.write_text(PLUGIN)
    monkeypatch.setattr(plugins, "_loaded", {})
    registry = sys.modules[formats.get.__module__]
    monkeypatch.setattr(registry, "_known", dict(registry._known))
    monkeypatch.setenv(plugins.FOLDERS, "")
    monkeypatch.setenv(plugins.VARIABLE, str(path))
    monkeypatch.chdir(tmp_path)
    add_job(shelf, JobPlan(CONV, CPU, kind=JobKind.FIND), {"solvers": [row("direct", 500.0)]})
    return shelf


def run(*arguments: str) -> None:
    app(list(arguments), standalone_mode=False)


def test_a_format_of_a_plug_in_is_exported_compared_and_promoted(
    csv_format: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    run("export", "find-db", "-l", "L", "-o", "out", "--format", "csv")
    exported = Path("out/znver4_1.find.csv")
    assert exported.read_text().split() == [f"{CPU},{CONV},direct,500.0"]

    shipped = Path("ship/znver4_1.find.csv")
    shipped.parent.mkdir()
    shipped.write_text(f"{CPU},{CONV},direct,1000.0\n{CPU},matmul:8x8x8:f32,packed,7.0\n")
    capsys.readouterr()
    run("compare", "L", "--against", "ship", "--json")
    assert '"faster": 1' in capsys.readouterr().out
    run("promote", "L", "--into", "ship", "--format", "csv", "--kinds", "find")
    assert shipped.read_text().split() == [
        f"{CPU},{CONV},direct,500.0",
        f"{CPU},matmul:8x8x8:f32,packed,7.0",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "format csv does not support perf-dbs; choose another one with --format"),
        (["--sqlite"], "--sqlite requires --format miopen; format csv"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_in_a_sentence(
    csv_format: Store, arguments: list[str], sentence: str
) -> None:
    add_job(csv_format, JobPlan(CONV, CPU, "auto"), {"solver": "direct", "time_ns": 5.0})
    with pytest.raises(UsageError, match=sentence):
        run("export", "perf-db", "-l", "L", "-o", "out", "--format", "csv", *arguments)


def test_an_unknown_format_is_answered_with_those_there_are(csv_format: Store) -> None:
    known = "choose skipjack or miopen or csv; did you mean csv"
    with pytest.raises(UsageError, match=f"unknown format 'cvs': {known}"):
        run("export", "find-db", "-l", "L", "-o", "out", "--format", "cvs")


def test_two_formats_cannot_have_files_of_one_ending() -> None:
    class Taken(ExportFormat):
        name = "taken"
        kernel_ending = ".skk"

    with pytest.raises(UsageError, match=r"end in \.skk, like those of skipjack"):
        formats.register(Taken())
