"""``skipjack export``, in the test's own process, of jobs that are made up."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up import CONV, CPU, MATMUL, add_job, row
from typer.testing import CliRunner

from skipjack.cli.main import app
from skipjack.errors import UsageError
from skipjack.fleet.model import JobKind, JobPlan, JobState
from skipjack.fleet.release.results import found_in_file, found_in_label
from skipjack.fleet.store import Store
from skipjack.interop.miopen import read_perf_sqlite
from skipjack.interop.miopen.perf_sqlite import perf_devices

Export = Callable[..., str]
RANKING = {"solvers": [row("direct", 2000.0, config={"rows": 6}), row("onednn", 1000.0)]}
GPU = "gfx908/120"


@pytest.fixture
def export(shelf: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Export]:
    """Runs an export with arguments and gives what it printed; errors are raised."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["export", *words])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    handlers, level = list(logging.root.handlers), logging.root.level
    yield run
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture
def found(shelf: Store) -> Store:
    """Rankings for two devices, and a job that nobody can do."""
    for key, device in ((CONV, CPU), (CONV, GPU), (MATMUL, CPU)):
        add_job(shelf, JobPlan(key, device, kind=JobKind.FIND), RANKING)
    add_job(
        shelf, JobPlan("matmul:1x1x1:f32", CPU, kind=JobKind.FIND), state=JobState.NOT_APPLICABLE
    )
    return shelf


def test_every_device_gets_a_find_db(export: Export, found: Store) -> None:
    said = export("find-db", "-l", "L", "-o", "out", "--format", "miopen", "--top", "1")
    assert "znver4_1.HIP.fdb.txt: 1 problem, 1 entry" in said
    assert "left out: 1 job that no solver" in said and "1 matmul" in said
    names = {path.name for path in Path("out").iterdir()}
    assert names == {"znver4_1.HIP.fdb.txt", "gfx90878.HIP.fdb.txt", "manifest.json"}
    export("find-db", "-l", "L", "-o", "one", "-a", "gfx908", "-n", "120")
    assert {path.name for path in Path("one").iterdir()} == {"gfx90878.find.jsonl", "manifest.json"}
    with pytest.raises(UsageError, match="unknown device"):
        export("find-db", "-l", "L", "-o", "none", "--device", "gfx908/121")
    assert not Path("none").exists()


@pytest.mark.parametrize("form", ["miopen", "skipjack"])
def test_what_was_exported_is_what_was_found(export: Export, found: Store, form: str) -> None:
    text = export("find-db", "-l", "L", "-o", "out", "--format", form, "--device", GPU, "--json")
    record: dict[str, Any] = json.loads(text)
    assert record["format"] == 1 and record["left_out"]["unfinished"] == 0
    (note,) = record["files"]
    (back,) = found_in_file(Path("out") / note["name"])
    (known,) = found_in_label(found.results, "L", GPU)
    assert (back.problem, back.find_key, back.device) == (known.problem, known.find_key, GPU)
    for one, other in zip(back.ranking, known.ranking, strict=True):
        assert (one.solver, one.time_ns, one.algorithm) == (
            other.solver,
            other.time_ns,
            other.algorithm,
        )


def test_a_release_with_an_alias(export: Export, found: Store) -> None:
    words = ("-l", "L", "-o", "out", "--format", "miopen", "--release", "6.2")
    said = export("perf-db", *words, "--sqlite", "--alias", f"gfx906/60={GPU}")
    assert "gfx906_60.db: 1 problem, 1 entry (measured on gfx908/120)" in said
    manifest = json.loads(Path("out/rel-6.2/manifest.json").read_text())
    assert manifest["aliases"] == {"gfx906/60": GPU} and manifest["release"] == "6.2"
    with pytest.raises(UsageError, match="is not exported in this run"):
        export("perf-db", *words, "--alias", "gfx906/60=gfx900/64")


def test_one_file_for_all_devices(export: Export, found: Store) -> None:
    words = ("perf-db", "-l", "L", "--one-file", "out/miopen.db")
    said = export(*words, "--alias", f"gfx906/60={GPU}")
    assert "out/miopen.db: 3 devices, " in said
    assert "gfx906/60 has the rows of gfx908/120" in said
    path = Path("out/miopen.db")
    assert perf_devices(path) == ("gfx906/60", GPU, CPU)
    assert read_perf_sqlite(path, "gfx906/60") == read_perf_sqlite(path, GPU) != []
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["devices"] == ["gfx906/60", GPU, CPU]
    export("perf-db", "-l", "L", "-o", "each", "--format", "miopen", "--sqlite")
    for name, device in (("gfx90878.db", GPU), ("znver4_1.db", CPU)):
        assert read_perf_sqlite(path, device) == read_perf_sqlite(Path("each") / name)
    path.with_name("manifest.json").unlink()
    with pytest.raises(UsageError, match="was not exported"):
        export(*words)


def test_unfinished_jobs_stop_it_unless_a_part_will_do(export: Export, found: Store) -> None:
    add_job(found, JobPlan("matmul:2x2x2:f32", CPU, kind=JobKind.FIND))
    with pytest.raises(UsageError, match="1 of 5 find jobs that are not finished"):
        export("find-db", "-l", "L", "-o", "out")
    assert not Path("out").exists()
    assert "left out: 1 job not done" in export("find-db", "-l", "L", "-o", "out", "--partial")


def test_finds_alone_make_a_perf_db_if_no_tuning_was_begun(export: Export, found: Store) -> None:
    add_job(found, JobPlan(CONV, CPU))
    said = export("perf-db", "-l", "L", "-o", "out", "--device", CPU)
    assert "1 tuning job was never started: configs are those that finds ranked" in said
    add_job(found, JobPlan(MATMUL, CPU), {"solver": "nest", "time_ns": 1.0, "config": {}})
    with pytest.raises(UsageError, match="1 of 5 jobs that are not finished"):
        export("perf-db", "-l", "L", "-o", "out", "--device", CPU)


def test_a_file_of_another_origin_is_replaced_on_request(export: Export, found: Store) -> None:
    words = ("find-db", "-l", "L", "-o", "out", "--device", GPU)
    place = Path("out/gfx90878.find.jsonl")
    place.parent.mkdir()
    place.write_text("{}\n{}\n{}\n")
    with pytest.raises(
        UsageError, match=r"\(3 records\) was not exported.*promote merges.*--replace"
    ):
        export(*words)
    assert place.read_text() == "{}\n{}\n{}\n" and len(list(place.parent.iterdir())) == 1
    said = export(*words, "--replace")
    assert "replaced 3 records of gfx90878.find.jsonl by 1; skipjack promote merges" in said
    assert "replaced" not in export(*words)


def test_a_bank_without_anything_has_nothing_to_export(export: Export) -> None:
    for kind in ("find-db", "perf-db"):
        with pytest.raises(UsageError, match="nothing to export"):
            export(kind, "-o", "out")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("perf-db", "-o", "out", "--sqlite"), "requires --format miopen"),
        (("perf-db",), "give -o DIRECTORY, or --one-file"),
        (("perf-db", "--one-file", "miopen.txt"), "SQLite database; name it miopen.db"),
        (("perf-db", "--one-file", "gfx90878.db"), "the name of the database of one device"),
        (("perf-db", "--one-file", "miopen.db", "--user", "-l", "L"), "user database holds one"),
        (("find-db", "-o", "out", "--partial"), "give -l as well"),
        (("find-db", "-o", "out", "--release", ""), "--release is empty; name a release"),
        (("find-db", "-o", "out", "--release", " "), "not a valid name of a release"),
        (("find-db", "-o", "x.HIP.fdb.txt"), "x.HIP.fdb.txt is the name of a database"),
        (("perf-db", "-o", "x.db.bz2"), "x.db.bz2 is the name of a database"),
        (("kernel-db", "-o", "x.find.jsonl"), "x.find.jsonl is the name of a database"),
        (("kernel-db", "-o", "one.xyz"), "cannot tell the format of one.xyz"),
        (("find-db", "-o", "out", "-a", "gfx908"), "go together"),
        (("kernel-db", "-o", "x.skk", "--format", "miopen"), "in the format skipjack, not"),
        (("kernel-db", "-o", "x.skk", "--release", "6.2"), "x.skk is one file"),
        (("kernel-db", "-o", "no/x.kdb"), "does not exist"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(
    export: Export, words: tuple[str, ...], says: str
) -> None:
    before = set(Path().iterdir())
    with pytest.raises(UsageError, match=says):
        export(*words)
    assert set(Path().iterdir()) == before
