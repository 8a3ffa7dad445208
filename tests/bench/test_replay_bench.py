"""The benchmark of searchers on recorded spaces: what it makes up, keeps and reads."""

import json
import subprocess
from pathlib import Path

import numpy as np

from replay import PRIOR, Options, measure, record, report, summaries
from replay_kernel_tuner import KernelTuner, _read
from replay_runs import RunStore, with_priors
from replay_spaces import Case, synthetic, t4_cases
from skipjack.core import Config, Status, Trial
from skipjack.interop import TuningResults, read_tuning_results, write_t4
from skipjack.learn.replay import RecordedSpace


def case(name: str = "small") -> Case:
    trials = [Trial(Config(a=a, b=b), value=1.0 + a * a + b) for a in range(6) for b in (1, 2, 4)]
    trials[3] = Trial(trials[3].config, Status.CRASH)
    return Case(name, "t4", RecordedSpace(trials, name))


def test_synthetic_spaces_depend_on_their_number_alone() -> None:
    first, again, other = synthetic(0), synthetic(0), synthetic(1)
    assert first.trials == again.trials != other.trials
    for space in (first, other):
        costs = space.costs[np.isfinite(space.costs)]
        assert 1_500 <= space.count() <= 12_000
        assert costs.max() > 50 * costs.min()  # a heavy tail
        assert 0 < len(costs) < space.count()  # failures


def test_recordings_of_the_same_program_are_priors(tmp_path: Path) -> None:
    for name in ("conv_A", "conv_B", "other_A"):
        write_t4(tmp_path / f"{name}_T4.json.gz", TuningResults(case().space.trials))
    found = {one.name: [space.name for space in one.prior] for one in t4_cases([tmp_path])}
    assert found == {"conv_A": ["conv_B"], "conv_B": ["conv_A"], "other_A": []}
    assert with_priors(["genetic", "model"], PRIOR) == ["genetic", "model", f"model{PRIOR}"]


def test_texts_become_ranks_for_kernel_tuner(tmp_path: Path) -> None:
    trials = [
        Trial(Config(order=o, pack=p), value=1.0) for o in ("mn", "nm") for p in (False, True)
    ]
    path = tmp_path / "cache.json"
    Case("x", "t4", RecordedSpace(trials, "x")).write_cache(path)
    found = [tuple(trial.config.values()) for trial in read_tuning_results(path).trials]
    assert found == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_runs_are_made_once_and_compared(tmp_path: Path) -> None:
    options = Options(
        (case(),), ("random", "nobody"), KernelTuner(None), 10, 3, 60, RunStore(tmp_path), None
    )
    cells = list(measure(options))
    assert [cell.note for cell in cells] == ["", "there is no searcher nobody"]
    (kept,) = tmp_path.rglob("*.json")
    before = kept.read_bytes()
    again = list(measure(options))
    assert kept.read_bytes() == before
    assert [cell.evaluations for cell in again] == [10.0, 0.0]
    assert "| random | 1 | 3 |" in report(again, summaries(again))


def test_the_result_says_what_random_search_needs_for_the_same(tmp_path: Path) -> None:
    trials = [Trial(Config(a=a, b=b), value=1.0 + a + b / 40) for a in range(5) for b in range(40)]
    large = Case("large", "t4", RecordedSpace(trials, "large"))
    options = Options(
        (large,), ("random", "genetic"), KernelTuner(None), 60, 3, 60, RunStore(tmp_path), None
    )
    cells = list(measure(options))
    found = record(options, cells, summaries(cells))
    json.dumps(found, allow_nan=False)
    needs = {one["searcher"]: one["random_needs"] for one in found["means"]}
    assert {name: list(one) for name, one in needs.items()} == {
        name: ["25", "50"] for name in ("random", "genetic")
    }
    assert 0 < needs["random"]["50"] < needs["genetic"]["50"] <= 200 / 50


def test_a_search_that_the_limit_cut_off_counts_only_if_it_is_the_only_one() -> None:
    whole = {"seed": 0, "asked": [1, 2, 3], "seconds": 1.0, "error": ""}
    cut = {"seed": 1, "asked": [4], "seconds": 2.0, "error": "timed out"}

    def read(*rows: object) -> tuple[dict[int, list[int]], str]:
        text = "\n".join(map(json.dumps, rows))
        found = _read(subprocess.CompletedProcess([], 0, text, ""), 20, 60)
        return found.asked, found.note

    assert read(whole, cut)[0] == {0: [1, 2, 3]}
    assert read(cut) == ({1: [4]}, "timed out after 60 s of a core at evaluation 1 of seed 1; "
                                   "20 seeds were wanted")  # fmt: skip
