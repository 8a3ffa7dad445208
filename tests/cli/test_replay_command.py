"""``replay`` and ``export t4`` as commands: tables, JSON, CSV, and sentences for bad input."""

import csv
import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from skipjack import app as use_cases
from skipjack.app import LedgerChoice, ReplayRequest, split_searchers
from skipjack.cli import export, replay
from skipjack.core import Config, Status, Study, Trial
from skipjack.errors import SkipjackError, UsageError
from skipjack.interop import TuningResults, read_tuning_results, write_kernel_tuner_cache, write_t4
from skipjack.interrupt import Interrupt
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.report import write_replay_csv
from skipjack.search import Batches, SearchContext, register
from skipjack.search.registry import _FACTORIES
from skipjack.testing.spaces import CostSurface, tiled_space

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("replay", epilog=replay.REPLAY_EXAMPLES)(replay.replay)
app.add_typer(export.app, name="export")

PROBLEM, SOLVER = "matmul:64x64x64:f32", "packed"


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def trials_of(seed: int, failure_rate: float = 0.1) -> tuple[Trial, ...]:
    space = tiled_space()
    surface = CostSurface(space, seed, failure_rate=failure_rate)
    return tuple(surface.trial(config) for config in list(space.enumerate())[::7])


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "product_A_T4.json.gz"
    write_t4(path, TuningResults(trials_of(4), unit="ms"))
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A cache file of Kernel Tuner, with the same parameters."""
    path = tmp_path / "product_B.json"
    write_kernel_tuner_cache(path, TuningResults(trials_of(5)))
    return path


def lines_of(*words: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("replay", *words, "--json").splitlines()]


FEW = ("--budget", 20, "--seeds", 3)


def test_a_table_for_each_recording_and_one_of_geometric_means(
    recording: Path, other: Path
) -> None:
    shown = run("replay", recording, other, "--searchers", "genetic,random", *FEW)
    assert "product_A: 556 configs, 57 failed" in shown
    assert "20 evaluations, 3 seeds" in shown
    assert "geometric means of 2 recordings" in shown
    first_words = [line.split()[0] for line in shown.splitlines() if line.split()]
    assert first_words.count("genetic") == first_words.count("random") == 3


def test_json_lines_have_the_figures_of_each_searcher_and_the_means(
    recording: Path, other: Path
) -> None:
    lines = lines_of(recording, other, "--searchers", "hill_climbing,random", *FEW)
    assert [line["recording"] for line in lines] == [
        *("product_A", "product_A", "product_B", "product_B", None, None)
    ]
    for line in lines:
        assert line["format"] == 1
        area, share, ratio = line["area"], line["score"], line["ratio"]
        assert isinstance(area, dict)
        assert isinstance(share, dict)
        assert isinstance(ratio, dict)
        assert 0 < area["low"] <= area["mean"] <= area["high"]
        assert share["low"] <= share["mean"] <= share["high"] < 1
        assert ratio["mean"] >= 1
        assert line["budget"] == 20
    single = [line["area"]["mean"] for line in lines if line["searcher"] == "random"]  # type: ignore[index]
    assert math.isclose(single[2], math.sqrt(single[0] * single[1]))


def test_csv_has_every_evaluation_and_does_not_depend_on_the_number_of_processes(
    recording: Path, tmp_path: Path
) -> None:
    files = [tmp_path / f"{jobs}.csv" for jobs in (1, 2)]
    for jobs, file in enumerate(files, 1):
        run("replay", recording, *FEW, "--searchers", "genetic,random", "--jobs", jobs, "-o", file)
    assert files[0].read_bytes() == files[1].read_bytes()
    with files[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 20
    assert {row["seed"] for row in rows} == {"0", "1", "2"}
    genetic = [row for row in rows if row["searcher"] == "genetic" and row["seed"] == "1"]
    assert [int(row["evaluation"]) for row in genetic] == list(range(1, 21))
    assert len({row["config"] for row in genetic}) == 20
    least = math.inf
    for row in genetic:
        least = min(least, float(row["value"] or math.inf))
        assert float(row["best"] or math.inf) == least
        assert (row["status"] == "ok") == bool(row["value"])
    best = min(float(row["value"]) for row in rows if row["value"])
    optimum = min(trial.value for trial in trials_of(4) if trial.value is not None)
    ratios = [float(row["ratio"]) for row in rows if row["ratio"]]
    assert math.isclose(min(ratios), best / optimum)


def test_the_recording_of_another_device_is_a_prior(recording: Path, other: Path) -> None:
    words = (recording, "--searchers", "genetic", *FEW)
    assert lines_of(*words, "--prior", other) != lines_of(*words)
    same = {"searcher": "genetic", "recording": "product_A"}
    assert all(same.items() <= line.items() for line in lines_of(*words, "--prior", other))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A user directory in which two problems were tuned."""
    folder = tmp_path / "user"
    with Ledger.open(folder) as opened:
        for problem in (PROBLEM, "matmul:96x96x96:f32"):
            study = Study(parse(problem), SOLVER, "z/1", "random", 0)
            opened.start_study(study, 1)
            opened.log_tells(study.id, trials_of(4))
    return folder


def test_a_study_of_a_ledger_is_replayed_and_exported(ledger: Path, tmp_path: Path) -> None:
    words = (ledger, "--searchers", "random", *FEW)
    with pytest.raises(UsageError, match=f"has 2 recorded spaces; choose one:(.|\n)*'{PROBLEM}'"):
        run("replay", *words)
    (line,) = lines_of(*words, "--problem", "matmul:64x64x64")
    assert line["recording"] == f"{PROBLEM} {SOLVER}"
    assert line["configs"] == 556
    file = tmp_path / "packed_T4.json.gz"
    shown = run("export", "t4", ledger, "--problem", PROBLEM, "-o", file)
    assert shown == f"{file}: 556 configs of {PROBLEM} {SOLVER}, 57 failed\n"
    found = read_tuning_results(file)
    assert found.unit == "ns"
    assert found.metadata["problem"] == PROBLEM
    assert {one.config: one.value for one in found.trials} == {
        one.config: one.value for one in trials_of(4)
    }
    (again,) = lines_of(file, "--searchers", "random", *FEW)
    assert again["area"] == line["area"]


def test_a_cache_file_becomes_t4(other: Path, tmp_path: Path) -> None:
    file = tmp_path / "new_T4.json"
    fields = json.loads(run("export", "t4", other, "-o", file, "--json"))
    assert fields == {
        "format": 1, "file": str(file), "recording": "product_B", "configs": 556, "failed": 53
    }  # fmt: skip
    assert read_tuning_results(file).trials == read_tuning_results(other).trials


def test_searchers_are_separated_by_commas_as_their_parameters_are() -> None:
    assert split_searchers(["genetic:population=30,tournament=5,random"]) == (
        *("genetic:population=30,tournament=5", "random"),
    )
    assert split_searchers(["random, optuna:gp,startup=5", "random,auto"]) == (
        *("random", "optuna:gp,startup=5", "auto"),
    )


Change = Callable[[Path], tuple[object, ...]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--searchers", "genetics"), "unknown searcher 'genetics'; .*did you mean genetic"),
        (("--searchers", "genetic,,random"), "'genetic,,random' has an empty part"),
        (("--searchers", "policy"), "the policy cannot search this"),
        (("--budget", 0), "--budget must be at least 1, not 0"),
        (("--seeds", 0), "--seeds must be at least 1, not 0"),
        (("--jobs", -1), "--jobs must be at least 1, not -1"),
        (("--problem", PROBLEM), "is not a ledger: it has a single space"),
        (("-o", "nowhere/x.csv"), "cannot write nowhere/x.csv: no file can be created in nowhere"),
        (("-o", "."), r"cannot write \.: it is a directory; name a file"),
    ],
)
def test_what_makes_no_sense_is_refused(
    recording: Path, words: tuple[object, ...], sentence: str
) -> None:
    with pytest.raises(SkipjackError, match=sentence):
        run("replay", recording, *words)


def failed(path: Path) -> None:
    trials = [Trial(Config(a=a), Status.CRASH) for a in range(3)]
    write_t4(path, TuningResults(tuple(trials)))


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda path: path.write_text("{}"), "neither a T4 file, .* nor a cache file"),
        (lambda path: path.write_text("a,b\n1,2\n"), "x.json:1: this is not JSON"),
        (lambda path: path.write_text('{"results": []}'), "list with at least one entry"),
        (lambda path: path.write_bytes(gzip.compress(b"{}")[:9]), "x.json"),
        (lambda path: None, "there is no file"),
        (lambda path: path.mkdir(), "there is no ledger at"),
        (failed, "every config of x.json failed: there is nothing to find in it"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(
    tmp_path: Path, write: Callable[[Path], object], sentence: str
) -> None:
    path = tmp_path / "x.json"
    write(path)
    with pytest.raises(SkipjackError, match=sentence):
        run("replay", path)


def test_a_prior_must_fit(recording: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_t4(path, TuningResults((Trial(Config(a=1), value=1.0),)))
    with pytest.raises(UsageError, match=r"x\.json is no prior of product_A: none of its configs"):
        run("replay", recording, "--prior", path)
    with pytest.raises(UsageError, match="is the recording itself; --prior takes those of others"):
        run("replay", recording, "--prior", recording)


def request_of(recording: Path, *searchers: str, jobs: int = 1) -> ReplayRequest:
    return ReplayRequest((recording,), searchers, 20, 30, (), LedgerChoice(), jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_keeps_the_runs_that_are_done(recording: Path, tmp_path: Path, jobs: int) -> None:
    interrupt = Interrupt()

    def observe(done: int, of: int) -> None:
        interrupt.requested = done >= 2

    request = request_of(recording, "genetic", "random", jobs=jobs)
    result = use_cases.replay(request, observe, interrupt=interrupt)
    assert result.interrupted
    done = len(result.recordings[0].runs)
    assert 2 <= done < 60
    write_replay_csv(result, tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == done * 20


def test_what_a_searcher_raises_in_another_process_is_a_sentence(recording: Path) -> None:
    def late(context: SearchContext) -> Batches:
        yield context.starts()
        raise UsageError("it has had enough")

    before = dict(_FACTORIES)
    register("late", late)
    try:
        for jobs in (1, 2):
            with pytest.raises(SkipjackError, match="it has had enough"):
                use_cases.replay(request_of(recording, "late", jobs=jobs))
    finally:
        _FACTORIES.clear()
        _FACTORIES.update(before)
