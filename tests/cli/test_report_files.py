"""``skipjack report -o``: one file for each kind of target, from results of real commands."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skipjack.app import ReportRequest, read_report
from skipjack.cli.main import app
from skipjack.core import Config, Objective, Status
from skipjack.errors import SkipjackError, StorageError, UsageError
from skipjack.integrations.torch.outcomes import TorchDecision, TorchStatus, call_key
from skipjack.integrations.torch.outcomes.result_file import ProgramFacts, ProgramTime, ResultFile
from skipjack.learn.runs import PlayedEpisode, RunFolder, TrainingSession, TrainOptions
from skipjack.report.views import report_of
from skipjack.sweep.engine import SweepResult, SweepTrial
from skipjack.sweep.results import write_json

Command = Callable[..., str]
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def command(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command in a directory of its own; errors are raised."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def page(path: Path, *words: str) -> str:
    """A written page, which has these words, and loads and runs nothing."""
    text = path.read_text()
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>\n")
    assert "<script" not in text
    assert "default-src 'none'" in text
    for word in words:
        assert word in text, word
    return text


def test_a_problem_and_its_figures_and_two_banks(
    command: Command, tmp_path: Path, user_dir: Path
) -> None:
    command("tune", "add:512", "--budget", "3")
    (tmp_path / "before.jsonl").touch()
    command("report", "before.jsonl", "user", "-o", "banks.html")
    page(tmp_path / "banks.html", "only in second", "add:512:f32")
    command("report", str(user_dir), "user", "-o", "banks.html")
    page(tmp_path / "banks.html", "Two banks: 0 differences")
    with pytest.raises(UsageError, match="there is no bank 'nobody'"):
        command("report", "before.jsonl", "nobody", "-o", "other.html")
    command("report", "add:512", "-o", "report.html")
    text = page(tmp_path / "report.html", "add:512:f32", "Best so far", "Samples of the fastest")
    assert text.count("<svg") >= 2
    command("report", "add:512", "--figure", "best-so-far", "-o", "best.svg")
    assert ET.parse(tmp_path / "best.svg").getroot().tag.endswith("svg")
    with pytest.raises(UsageError, match="no figure 'best' in this report; it has best-so-far"):
        command("report", "add:512", "--figure", "best", "-o", "best.svg")
    pytest.importorskip("resvg_py")
    command("report", "add:512", "--figure", "samples", "--theme", "dark", "-o", "samples.png")
    assert (tmp_path / "samples.png").read_bytes().startswith(b"\x89PNG")


def test_a_label_and_watching_it(command: Command, tmp_path: Path) -> None:
    (tmp_path / "problems.txt").write_text("add:64\n")
    command("import", "-f", "problems.txt", "-t", "few")
    command("load", "-t", "few", "-l", "L", "--budget", "2")
    command("run", "-l", "L")
    command("report", "-l", "L", "-o", "report.html")
    page(tmp_path / "report.html", "Label L", "1 evaluated", "Jobs by state", "add:64:f32")
    assert "evaluated 1: 100 % done" in command("status", "-l", "L", "--watch")
    (line,) = command("status", "-l", "L", "--watch", "--json").splitlines()
    record = json.loads(line)
    assert (record["format"], record["label"], record["states"]) == (1, "L", {"evaluated": 1})
    with pytest.raises(UsageError, match="X"):
        command("report", "-l", "X", "-o", "other.html")
    with pytest.raises(UsageError, match="X"):
        command("status", "-l", "X", "--watch")
    with pytest.raises(UsageError, match="do not go with it"):
        command("status", "-l", "L", "--watch", "--jobs")
    assert not (tmp_path / "other.html").exists()


def sweep_result() -> SweepResult:
    trials = [
        SweepTrial(
            number,
            Config.of({"batch": batch, "threads": threads, MARKUP: 1}),
            Status.CRASH if batch == 8 else Status.OK,
            {"rate": float(batch * threads), "latency": float(batch + threads)},
            None if batch == 8 else float(batch * threads),
            reason=MARKUP if batch == 8 else "",
            seconds=2.0,
        )
        for number, (batch, threads) in enumerate(
            ((b, t) for b in (1, 2, 4, 8) for t in (1, 2)), start=1
        )
    ]
    objectives = (Objective("rate", "max"), Objective("latency", "min"))
    return SweepResult("resnet", objectives, tuple(trials), trials[5].point, 8.0)


def test_a_sweep(command: Command, tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    write_json(sweep_result(), tmp_path / "sweep" / "result.json")
    for target in ("sweep", "sweep/result.json"):
        command("report", target, "-o", "report.html")
        page(tmp_path / "report.html", "resnet: rate 8", "The front", "Median of points")
    found = report_of(read_report(ReportRequest(("sweep",)))).figures
    assert {"best-so-far", "heat-map", "parallel-coordinates", "front"} <= set(found)


def program_file(folder: Path) -> Path:
    facts = ProgramFacts(("python", f"{MARKUP}.py"), "/where", 17, "incremental", "GA")
    made = ResultFile(folder, facts, lambda: datetime(2026, 11, 16, 10, 15, 0))
    decision = TorchDecision(
        op="aten::mm",
        description="small",
        is_ours=True,
        status=TorchStatus.APPEND,
        solver="gemm",
        searcher="genetic",
        before_ns=3000.0,
        after_ns=2000.0,
        device="haswell/1",
        reason="so",
        problem=None,
    )
    made.add(decision)
    made.count_calls(lambda: {call_key(decision): 1000})
    made.end(ProgramTime(2.0, True, False, 3.0))
    made.write()
    return Path(made.path)


def test_a_program(command: Command, tmp_path: Path) -> None:
    file = program_file(tmp_path)
    command("report", str(file), "-o", "report.html")
    page(tmp_path / "report.html", "1.50 times as fast", "before and after", "Time saved")
    assert "1 operation" in command("report", str(file))


def step_file(folder: Path) -> Path:
    record = {
        "format": 1,
        "name": "torch_picture",
        "device": {"name": "znver4/1"},
        "model": "small_cnn",
        "batch": 16,
        "threads": 1,
        "ms": {"plain": 8.0, "tuned": 5.0},
        "speedup": {"ratio": 1.6, "low": 1.5, "high": 1.7},
        "operations": [
            {"op": "convolution", "by": "skipjack", "us": {"plain": 5000.0, "tuned": 2000.0}},
            {"op": "max_pool2d_with_indices", "by": "other", "us": {"plain": 3e3, "tuned": 3e3}},
        ],
    }
    path = folder / "step.json"
    path.write_text(json.dumps(record))
    return path


def test_a_training_step(command: Command, tmp_path: Path) -> None:
    command("report", str(step_file(tmp_path)), "-o", "report.html")
    page(tmp_path / "report.html", "8 ms before, 5 ms after: 1.60 [1.50, 1.70] times as fast")


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("nothing",), UsageError, "neither a file nor a folder nor a problem"),
        (("missing.json",), StorageError, "cannot read missing.json"),
        (("damaged.json",), StorageError, "damaged.json is not JSON"),
        (("list.json",), StorageError, "has no report in it"),
        (("other.json",), StorageError, "has nothing that a report shows"),
        (("half.json",), SkipjackError, "half.json"),
        (("matmul:3x3x3",), UsageError, "nothing is known about problem"),
        (("empty",), UsageError, "is neither a training run"),
        (("a", "b", "c"), UsageError, "one target, or about two banks"),
        (("a", "-l", "L"), UsageError, "give one of them"),
        ((), UsageError, "needs to know what it is about"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence_and_leaves_nothing(
    words: tuple[str, ...],
    error: type[SkipjackError],
    said: str,
    command: Command,
    tmp_path: Path,
) -> None:
    (tmp_path / "damaged.json").write_text('{"kind": "sweep", ')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "half.json").write_text('{"kind": "sweep", "format": 1}')
    (tmp_path / "empty").mkdir()
    with pytest.raises(error, match=said):
        command("report", *words, "-o", "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_file_that_cannot_be_written_keeps_what_was_there(
    command: Command, tmp_path: Path
) -> None:
    file = str(step_file(tmp_path))
    with pytest.raises(StorageError, match="cannot write"):
        command("report", file, "-o", str(tmp_path / "missing" / "report.html"))
    with pytest.raises(StorageError, match="it is a directory"):
        command("report", file, "-o", str(tmp_path))
    with pytest.raises(UsageError, match=r"add -o report\.html"):
        command("report", "add:64")
    with pytest.raises(UsageError, match="--figure"):
        command("report", file, "-o", "a.png")
    with pytest.raises(UsageError, match=r"as \.svg or \.png"):
        command("report", file, "--figure", "gains", "-o", "a.html")
    with pytest.raises(UsageError, match="light or dark"):
        command("report", file, "--figure", "gains", "-o", "a.svg", "--theme", "blue")


def test_a_training_run(command: Command, tmp_path: Path) -> None:
    from skipjack.learn.loops import LoopDataset
    from skipjack.native import describe

    options = TrainOptions(dataset="mm")
    dataset = LoopDataset("mm", "mm", 0, ("matmul:32x32x32",), ("matmul:64x64x64",))
    folder = RunFolder.create(tmp_path / "run", options, dataset, describe("haswell/1"))
    session = TrainingSession("2026-11-16T10:00:00", "local", 1, {}, 0, 20, 3.0, "done")
    folder.sessions.append(session)
    folder.write_record()
    for iteration in (1, 2):
        curves = {"steps": 10.0 * iteration, "seconds": 1.0, "speed_up": 1.0 + iteration}
        episode = PlayedEpisode(
            "matmul:32x32x32", ("down", "swap_down"), (0.0, 0.5), (1e-5, 5e-6), "so", 2.0
        )
        folder.add(curves, [episode], iteration)
    command("report", "run", "-o", "report.html")
    page(tmp_path / "report.html", "Speed-up of episodes", "swap_down", "The last episode")
