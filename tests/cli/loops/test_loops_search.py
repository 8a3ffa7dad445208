"""``skipjack loops search`` as run by users; times are estimated, nothing is measured."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from skipjack.cli.main import app
from skipjack.core import Problem
from skipjack.core.timing import cpu_protocol
from skipjack.errors import SkipjackError
from skipjack.learn.loops import Preset, loop_game
from skipjack.learn.policy import greedy, shipped
from skipjack.learn.rates import LoopTable, ModelRates, TableHeader, write_table
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.solvers.cpu.nest import Schedule

ESTIMATED = ("--rates", "model")
SMALL = ("--kind", "mm", "--dim-a", "64:96:16,64", "--dim-b", "64,64:96:16", "-o", "small")


@pytest.fixture(autouse=True)
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["loops", *words], catch_exceptions=False)


def search(*words: str) -> str:
    done = invoke("search", *words, *ESTIMATED)
    assert done.exit_code == 0, done.output
    return done.stdout


def records(*words: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in search(*words, "--json").splitlines()]


def test_a_beam_finds_schedules_of_a_dataset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    invoke("dataset", *SMALL)
    words = "--method beam --width 4 --lookahead 2 --budget 40 --dataset small --size 2 --split all"
    done = invoke("search", *words.split(), "--debug", "graph.svg", *ESTIMATED)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("beam-4-lookahead-2") >= 3, "a row for each, and one for both"
    assert "Times of schedules: 80 estimated." in done.stdout
    assert Path("graph.svg").read_text().startswith("<svg")
    assert Path("graph.dot").read_text().count("subgraph") == 2


@pytest.mark.parametrize("last", [("--debug",), ("--debug", "--seed", "1")])
def test_a_graph_needs_no_name(last: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    words = ("matmul:64x64x64", "--method", "recipe", *ESTIMATED, *last)
    assert invoke("search", *words).exit_code == 0
    assert Path("graph.svg").is_file()
    assert "digraph" in Path("graph.dot").read_text()


def test_all_searches_have_the_same_budget_and_every_step_is_written() -> None:
    words = ("matmul:64x64x64", "--method", "all", "--budget", "12", "--seeds", "2")
    runs = records(*words, "--csv", "steps.csv")
    assert len(runs) == 24
    assert {run["seed"] for run in runs} == {0, 1}
    assert max(run["measured"] for run in runs) == 12
    with Path("steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["search"] for row in rows} == {run["search"] for run in runs}
    again = records(*words)
    assert [run["schedule"] for run in runs] == [run["schedule"] for run in again]


def test_a_report_has_the_steps_and_the_plots() -> None:
    pytest.importorskip("matplotlib")
    search("matmul:64x64x64", "--method", "random,recipe", "--budget", "20", "--report", "out")
    names = {path.name for path in Path("out").iterdir()}
    assert names == {
        *("steps.csv", "gains.svg", "problems.svg", "gain-per-action.svg", "best-so-far.svg")
    }


def test_an_exhaustive_search_needs_no_budget() -> None:
    words = ("matmul:64x64x64", "--episode-steps", "3", "--budget")
    (oracle,) = records(*words, "0", "--method", "exhaustive")
    (beam,) = records(*words, "20", "--method", "beam")
    assert oracle["measured"] > 30
    assert beam["gain"] <= oracle["gain"]
    cut = invoke("search", *words, "9", "--method", "exhaustive", *ESTIMATED)
    assert "the budget of 9 was spent before every state was seen; --budget 0" in cut.stderr
    whole = invoke("search", *words, "0", "--method", "exhaustive", *ESTIMATED)
    assert "the budget" not in whole.stderr


def test_ctrl_c_ends_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked once, the search ends at a safe point; all that was found is shown and written."""
    asked = 0
    own = ModelRates.seconds

    def interrupted(
        self: ModelRates, problem: Problem, schedules: Sequence[Schedule]
    ) -> list[float | None]:
        nonlocal asked
        asked += 1
        if asked == 3:
            os.kill(os.getpid(), 2)
        return own(self, problem, schedules)

    monkeypatch.setattr(ModelRates, "seconds", interrupted)
    words = ("matmul:64x64x64", "--method", "random,beam", "--csv", "steps.csv", *ESTIMATED)
    done = CliRunner().invoke(app, ["loops", "search", *words])
    assert done.exit_code != 0
    assert "matmul:64x64x64:f32 random 0: " in done.stdout
    assert "beam" not in done.stdout, "the searches after it are not begun"
    assert len(Path("steps.csv").read_text().splitlines()) > 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no problem given"),
        (("--size", "3"), "--size limits a dataset"),
        (("--dataset", "nothing"), "unknown dataset 'nothing'"),
        (("matmul:8x8x8", "--method", "depth"), "unknown search 'depth'; choose from greedy"),
        (("matmul:8x8x8", "--method", "random", "--width", "2"), "has no width"),
        (("matmul:8x8x8", "--policy", "none.npz"), "none.npz"),
        (("matmul:8x8x8", "--preset", "half"), "there is no preset 'half'"),
        (("matmul:8x8x8", "--cold", "--rates", "model"), "--cold is only for live rates"),
        (("softmax:8x8",), "cannot be played"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_sentence(
    words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SkipjackError, match=message) as caught:
        invoke("search", *words)
    assert "\n" not in str(caught.value)


def test_a_table_of_another_machine_is_searched_as_that_machine() -> None:
    problem, other = parse("matmul:64x64x64"), describe("haswell/1")
    game = loop_game(problem, other, Preset.LOOPTUNE)
    table = LoopTable(TableHeader(other, "llvm 20", cpu_protocol().key))
    table.add(problem.key, "nest", {game.built(game.start()).text(): 10_000.0})
    write_table(Path("haswell.jsonl"), table)
    words = (problem.key, "--method", "recipe", "--rates", "haswell.jsonl")
    done = invoke("search", *words)
    assert done.exit_code == 0, done.output
    assert "1 replayed" in done.stdout
    shown = invoke("show", problem.key, "--rates", "--rates-from", "haswell.jsonl")
    assert f"{2 * 64**3 / 1e4:.1f} GFLOP/s" in shown.stdout


@pytest.mark.parametrize("key", ["matmul:112x208x256", "conv2d:n1c64h14w14k64y3x3p1q1"])
def test_the_shipped_policy_has_as_many_actions_as_its_games_take(key: str) -> None:
    """Else what it proposes would be judged half done, beside searches that need fewer."""
    game = loop_game(parse(key), describe("skylake-avx512/1"), Preset.FULL)
    played = greedy(shipped(Preset.FULL), game)
    assert played.state.stopped
    assert len(played.actions) <= Preset.FULL.episode_steps


def test_the_shipped_policy_is_a_search_without_being_named() -> None:
    words = ("matmul:24x32x16", "--budget", "4", "--method", "policy")
    own, named = records(*words), records(*words, "--policy", "shipped")
    assert [each["schedule"] for each in own] == [each["schedule"] for each in named]
    assert own


def test_a_graph_is_drawn_as_svg_alone() -> None:
    result = invoke("search", "matmul:24x32x16", "--debug", "graph.png", *ESTIMATED)
    assert result.exit_code == 2
    assert not Path("graph.dot").exists()
