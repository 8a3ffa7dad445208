"""Oracle tables: they have every schedule within some actions, and no search beats their best."""

from __future__ import annotations

from pathlib import Path

import pytest

import loop_oracle
from skipjack.core import Problem
from skipjack.errors import UsageError
from skipjack.learn.loops import GLOBAL_COLUMNS, ROW_COLUMNS, LoopGame, Preset, loop_game
from skipjack.learn.policy import Policy, PolicyNetwork
from skipjack.learn.rates import (
    LoopTable,
    TableHeader,
    TableRates,
    open_rates,
    read_table,
    table_header,
    write_table,
)
from skipjack.learn.tree import SearchBudget, all_methods, method_of, run_search, search_run
from skipjack.lists import path_of
from skipjack.native import cpu, describe
from skipjack.operations import parse
from skipjack.testing.samples import random_weights

STORED = sorted((Path(loop_oracle.__file__).parent / "results" / "loop_oracle").glob("*.jsonl.gz"))
PROBLEM = parse("matmul:48x40x32")


def random_policy() -> Policy:
    sizes = len(ROW_COLUMNS), len(GLOBAL_COLUMNS), len(Preset.LOOPTUNE.actions)
    return Policy(PolicyNetwork(random_weights(*sizes)), Preset.LOOPTUNE, "random")


def game_of(problem: Problem = PROBLEM) -> LoopGame:
    return loop_game(problem, cpu.detect(), Preset.LOOPTUNE)


def modelled(folder: Path, most: int) -> tuple[Path, int]:
    """An oracle table with estimated times, and its depth."""
    depth, schedules = loop_oracle.within(game_of(), most)
    seconds = open_rates("model", cpu.detect()).seconds(PROBLEM, schedules)
    table = LoopTable(table_header(cpu.detect(), "0.1.0"))
    texts = [each.text() for each in schedules]
    table.add(PROBLEM.key, "nest", {t: s and s * 1e9 for t, s in zip(texts, seconds, strict=True)})
    write_table(folder / "t.jsonl.gz", table)
    return folder / "t.jsonl.gz", depth


def check(path: Path, seeds: int) -> None:
    """No search finds less than the table's best, and the exhaustive one finds it."""
    table = read_table(path)
    device = table.header.device
    for key, times_ns in table.times_ns.items():
        problem = parse(key)
        game = loop_game(problem, device, Preset.LOOPTUNE)
        depth = loop_oracle.depth_of(game, times_ns)
        assert depth >= 1, key
        best_ns = table.best_ns(problem)
        assert best_ns is not None
        rates = open_rates(f"exactly:{path}", device)
        whole = run_search(
            problem, game, rates, method_of("exhaustive"), SearchBudget(None, actions=depth)
        )
        assert whole.best is not None
        assert whole.best.seconds == pytest.approx(best_ns * 1e-9)
        assert rates.sources == {"replayed": whole.measured}, "the table has all of them"
        for method in all_methods(random_policy()):
            for seed in range(seeds):
                budget = SearchBudget(100, actions=depth)
                run = run_search(problem, game, rates, method, budget, seed=seed)
                assert run.best is not None
                assert run.best.seconds is not None
                assert run.best.seconds >= whole.best.seconds, method.name
        assert set(rates.sources) == {"replayed"}


def test_no_search_beats_an_oracle_table_and_exhaustive_finds_its_best(tmp_path: Path) -> None:
    path, depth = modelled(tmp_path, 60)
    assert depth == 3
    check(path, seeds=2)


@pytest.mark.long
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.name)
def test_no_search_beats_the_stored_tables(path: Path) -> None:
    check(path, seeds=1)


def test_a_table_says_how_deep_it_is() -> None:
    game = game_of()
    depth, schedules = loop_oracle.within(game, 60)
    texts = [each.text() for each in schedules]
    assert len(set(texts)) == len(texts) <= 60
    assert loop_oracle.depth_of(game, dict.fromkeys(texts)) == depth
    assert loop_oracle.depth_of(game, dict.fromkeys(texts[:-1])) == depth - 1
    assert loop_oracle.depth_of(game, {}) == -1
    more, _ = loop_oracle.within(game, 400)
    assert more > depth
    nothing = game_of(parse("matmul:1x1x1"))
    assert loop_oracle.within(nothing, 60) == (0, [nothing.built(nothing.start())])


def test_the_shapes_are_five_of_the_paper(tmp_path: Path) -> None:
    listed = path_of("looptune").read_text().split()
    assert len(loop_oracle.SHAPES) == 5
    assert {f"matmul:{shape}" for shape in loop_oracle.SHAPES} <= set(listed)


def test_what_is_measured_is_kept_and_what_is_left_is_known(tmp_path: Path) -> None:
    (oracle,) = loop_oracle.oracles(tmp_path, ["16x24x8"], 40, 1)
    texts = oracle.left
    assert texts == [each.text() for each in oracle.schedules]
    oracle.take({texts[0]: 5.0, texts[1]: None})
    (again,) = loop_oracle.oracles(tmp_path, ["16x24x8"], 40, 1)
    assert again.left == texts[2:]
    assert TableRates(again.table).seconds(again.problem, again.schedules[:2]) == [5e-9, None]
    other = LoopTable(TableHeader(describe("haswell/2"), "llvm 3", ""))
    write_table(oracle.path, other)
    with pytest.raises(UsageError, match="measured on haswell/2 with llvm 3"):
        loop_oracle.oracles(tmp_path, ["16x24x8"], 40, 1)


def test_an_exhaustive_search_goes_on_where_only_the_cursor_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Searches without an end stop after some steps without a new schedule; it must not."""
    monkeypatch.setattr(search_run, "MAX_IDLE", 1)
    game = game_of(parse("matmul:1x17x1"))
    counts = [len(layer) for layer in loop_oracle.layers(game)]
    assert 0 in counts[: max(at for at, count in enumerate(counts) if count)]
    problem, rates = parse("matmul:1x17x1"), open_rates("model", cpu.detect())
    budget = SearchBudget(None, actions=len(counts))
    run = run_search(problem, game, rates, method_of("exhaustive"), budget)
    assert run.measured == sum(counts)


def test_an_oracle_is_measured_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.setenv("SKIPJACK_LOCK_DIR", str(tmp_path / "locks"))
    words = ("-o", str(tmp_path), "--shapes", "16x24x8", "--minutes", "2")
    loop_oracle.main([*words, "--most", "8"])
    assert "all is measured" in capsys.readouterr().out
    (path,) = tmp_path.glob("*.jsonl.gz")
    first = read_table(path)
    loop_oracle.main([*words, "--most", "20"])
    key = parse("matmul:16x24x8").key
    assert first.times_ns[key].items() <= read_table(path).times_ns[key].items()
    check(path, seeds=1)
