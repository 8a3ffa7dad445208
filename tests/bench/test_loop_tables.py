"""What policies are trained on: problems that no suite holds, tables that two runs would share."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import loop_again
import loop_overheads
import loop_problems
import loop_suite
import loop_tables
from skipjack import plugins
from skipjack.learn.rates import TableHeader, read_table, table_files
from skipjack.operations import get, parse


def drawn() -> list[str]:
    """Keys of problems; their operations are those of a plug-in, which no other test may see."""
    return [problem.key for problem in islice(loop_problems.problems(3), 400)]


def test_problems_are_those_of_the_seed_and_none_comes_twice() -> None:
    keys = drawn()
    assert drawn() == keys
    assert len(set(keys)) == len(keys)


def test_no_problem_is_of_a_suite_or_of_its_plug_in() -> None:
    """Nor is any of the tables that the policy and the cost model were trained on."""
    held_out = {key for seed in range(loop_problems.SUITES) for key in loop_suite.held_out(seed)}
    folder = Path(loop_tables.__file__).parent / "results" / "loop_tables"
    tables = table_files([folder, folder / "looptune"])
    stored = {key for path in tables for key in read_table(path).times_ns}
    assert len(stored) > 1000
    for keys in (set(drawn()), stored):
        assert not held_out & keys
        assert not any(loop_suite.held_out_operation(parse(key)) for key in keys)


def test_sizes_are_bounded_and_operations_many() -> None:
    keys = drawn()
    work = [get(problem.operation).flops(problem) for problem in map(parse, keys)]
    assert min(work) >= loop_problems.LEAST_FLOPS
    assert max(work) <= loop_problems.MOST_FLOPS
    names = {key.partition(":")[0] for key in keys}
    assert {"matmul", "bmm", "conv2d", "sum", "add", "stencil3", "min_plus"} <= names


def test_each_core_has_one_process() -> None:
    found = loop_tables.places(range(14), loop_tables.SHARES)
    cores = [core for place in found for core in place.cores]
    assert sorted(cores) == list(range(14))
    assert {place.group for place in found} == set(loop_tables.SHARES)


def test_files_are_tables(tmp_path: Path) -> None:
    loop_problems.load_operations()
    device = loop_tables.cpu.detect()
    header = TableHeader(device, "llvm", "protocol")
    tables = loop_tables.Tables(tmp_path, 1)
    tables.begin("here", header.line())
    tables.add("here", loop_tables.problem_line("add:4:f32", "nest", {"i": 2.0}), 1)
    assert read_table(tmp_path / "loops_here.jsonl").times_ns == {"add:4:f32": {"i": 2.0}}
    assert str(loop_problems.PLUGIN) in plugins.loaded()


def test_lucky_schedules_are_timed_again_beside_others() -> None:
    times_ns = {f"m:{step}": float(100 + step) for step in range(2, 102)}
    fastest, others = loop_again.chosen({**times_ns, "m k": None}, 1)
    assert fastest == [f"m:{step}" for step in range(2, 2 + loop_again.FASTEST)]
    assert len(others) == loop_again.OTHERS
    assert not set(others) & set(fastest)


def test_new_times_are_medians_and_the_rest_is_scaled_to_them() -> None:
    before = {"lucky": 50.0, "plain": 100.0, "rest": 200.0, "broken": 70.0, "never": None}
    passes: list[loop_again.Times] = [
        {"lucky": seconds * 1e-9, "plain": 110e-9, "broken": broken}
        for seconds, broken in ((90.0, 1e-9), (95.0, None), (300.0, 1e-9))
    ]
    found = loop_again.merged(before, passes, ["plain"])
    assert {text: ns and round(ns, 3) for text, ns in found.items()} == {
        **{"lucky": 95.0, "plain": 110.0, "rest": 220.0},
        **{"broken": None, "never": None},
    }


def test_overheads_are_of_states_that_games_reach() -> None:
    costs = loop_overheads.of_game("matmul:24x32x16", loop_overheads.Preset.FULL, 1)
    assert {"mask", "apply", "built", *loop_overheads.OBSERVED, "estimate"} == set(costs)
    assert min(costs.values()) >= 0
