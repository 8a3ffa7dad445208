"""Where no bank knows a problem: the fastest of a few guesses answers, timed once beside NumPy."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import skipjack
from skipjack.bank import Bank, BankEntry
from skipjack.gpu import describe_gpu
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import bank_lookup, full_lookup
from skipjack.runtime.answers import Question, order, proposals
from skipjack.runtime.checks import background, guesses
from skipjack.runtime.local_kernels import kernel_cache
from skipjack.runtime.process import program
from skipjack.settings import Settings, load_settings
from skipjack.solvers import find_solver

KEY = "add:96"
NEAR_CONFIG = {"schedule": "i:16 i/v"}
Timed = Callable[[dict[str, float]], list[list[str]]]


@pytest.fixture(autouse=True)
def places(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is remembered, and the system's bank is one that a test may fill."""
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setattr(program, "_said", set())
    monkeypatch.delenv("SKIPJACK_BANKS", raising=False)
    monkeypatch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(tmp_path / "system"))
    return tmp_path


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    """Sets the speeds of schedules beside NumPy, others 1.5; gives what is timed from then on."""

    def set_speeds(speeds: dict[str, float]) -> list[list[str]]:
        done: list[list[str]] = []
        built: dict[int, str] = {}
        lower = type(find_solver("nest")).lower
        codes: dict[str, str] = {}

        def lowered(self: Any, problem: Any, device: Any, config: Any) -> Any:
            source = lower(self, problem, device, config)
            codes[self.compile(source).digest] = str(config["schedule"])
            return source

        def ratios(kernels: Sequence[Any], *_: object) -> tuple[str, list[float]]:
            done.append([built.get(id(kernel), kernel.solver) for kernel in kernels])
            return "numpy", [speeds.get(name, 1.5) for name in done[-1]]

        def kernel(problem: Any, code: Any, **options: Any) -> Any:
            made = bank_lookup.TunedKernel(problem, code, **options)
            built[id(made)] = codes[code.digest]
            return made

        monkeypatch.setattr(type(find_solver("nest")), "lower", lowered)
        monkeypatch.setattr(guesses, "TunedKernel", kernel)
        monkeypatch.setattr(guesses, "library_ratios", ratios)
        return done

    return set_speeds


def proposed(count: int = 5, key: str = KEY) -> list[str]:
    space: Any = find_solver("nest").space(parse(key), cpu.detect())
    return [str(config["schedule"]) for config in space.promising(count)]


def entry(key: str, **changes: Any) -> BankEntry:
    device = cpu.detect()
    made = BankEntry(
        problem=parse(key).key,
        device=device.class_key,
        device_name=device.name,
        solver="nest",
        solver_version=find_solver("nest").version,
        config=NEAR_CONFIG,
        time_ns=100.0,
        default_ns=200.0,
        vendor_ns=None,
        vendor="",
        speedup={"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}},
    )
    return replace(made, **changes)


def found(key: str = KEY) -> Any:
    skipjack.reload()
    kernel = skipjack.lookup(key)
    a = np.arange(96, dtype=np.float32)
    assert kernel is not None and np.array_equal(kernel(a, a), a + a)
    return kernel


def steps(key: str = KEY) -> dict[str, str]:
    return {step.step: step.said for step in full_lookup.explain(key).decision.steps}


def chosen(key: str = KEY) -> tuple[str, str]:
    answer = full_lookup.explain(key).decision.answer
    assert answer is not None
    return answer.source, str(answer.config.get("schedule", answer.kernel.solver))


def test_the_fastest_of_the_near_config_and_the_proposals_answers(
    places: Path, timed: Timed
) -> None:
    Bank.open(places / "system").put(entry("add:97"))
    first, second, third = proposed(3)
    done = timed({NEAR_CONFIG["schedule"]: 1.2, first: 1.4, second: 2.5, third: 0.8})
    assert found().source == "proposal"
    assert chosen() == ("proposal", second)
    (together,) = done
    assert together[:3] == [NEAR_CONFIG["schedule"], first, second], "in one check"


def test_the_near_config_answers_where_it_is_the_fastest(places: Path, timed: Timed) -> None:
    Bank.open(places / "system").put(entry("add:97"))
    timed({NEAR_CONFIG["schedule"]: 3.0})
    assert found().source == "nearest"
    assert chosen() == ("nearest", NEAR_CONFIG["schedule"])


def test_a_guess_that_is_hardly_faster_than_an_earlier_one_does_not_displace_it(
    places: Path, timed: Timed
) -> None:
    Bank.open(places / "system").put(entry("add:97"))
    first, second = proposed(2)
    timed({NEAR_CONFIG["schedule"]: 2.0, first: 2.03, second: 2.05})
    assert chosen() == ("nearest", NEAR_CONFIG["schedule"])


def test_a_library_that_is_best_for_a_near_problem_must_be_beaten(
    places: Path, timed: Timed
) -> None:
    library = entry("add:97", solver="numpy", solver_version=1, config={})
    Bank.open(places / "system").put(library)
    done = timed({**dict.fromkeys(proposed(), 0.9), "numpy": 1.0})
    assert chosen() == ("nearest", "numpy")
    assert done[0][0] == "numpy"


def test_a_library_answers_where_no_guess_is_as_fast(places: Path, timed: Timed) -> None:
    Bank.open(places / "system").put(entry("add:97"))
    done = timed({NEAR_CONFIG["schedule"]: 0.7, **dict.fromkeys(proposed(), 0.9)})
    assert found().source == "library"
    told = steps()
    assert f"nest with schedule={NEAR_CONFIG['schedule']} (nearest) 0.7" in told["nearest"]
    assert f"nest with schedule={proposed()[0]} (proposal) 0.9" in told["proposal"]
    background._checks.clear()
    assert found().source == "library"
    assert len(done) == 1, "it is remembered"


def test_another_process_asks_nothing(
    places: Path, timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = proposed(2)[1]
    timed({second: 2.5})
    assert chosen() == ("proposal", second)

    def fail(*_: object, **__: object) -> Any:
        raise AssertionError("it is known")

    for module, name in (
        (proposals, "solvers_for"),
        (guesses, "library_ratios"),
        (guesses.KernelVerifier, "fault"),
    ):
        monkeypatch.setattr(module, name, fail)
    background._checks.clear()
    assert chosen() == ("proposal", second)
    assert f"schedule={second} (proposal) 2.5" in steps()["proposal"]


def test_another_near_entry_is_timed_beside_the_proposals_again(places: Path, timed: Timed) -> None:
    done = timed({NEAR_CONFIG["schedule"]: 3.0})
    assert found().source == "proposal"
    Bank.open(places / "system").put(entry("add:97"))
    assert found().source == "nearest"
    assert len(done) == 2


def test_the_first_proposals_of_three_solvers_come_before_all_others() -> None:
    problem, device = parse("conv2d:n1c48h40w40k96y3x3p1q1"), cpu.detect()
    question = Question(problem, device, load_settings())
    made = list(proposals.proposed_configs(question))
    solvers = [guess.solver for guess in made]
    assert len(made) == 5 and len({*solvers[:3]}) == 3
    assert {*solvers[3:]} <= {*solvers[:3]}
    for guess in made[:3]:
        space: Any = find_solver(guess.solver).space(problem, device)
        assert guess.config == dict(space.promising(1)[0])


@pytest.mark.parametrize(("seconds", "built"), [(0.0, 5), (0.2, 3), (10.0, 1)])
def test_guesses_are_built_as_long_as_there_is_time(
    timed: Timed, monkeypatch: pytest.MonkeyPatch, seconds: float, built: int
) -> None:
    done, clock = timed({}), count(0.0, seconds)
    monkeypatch.setattr(guesses, "thread_time", lambda: next(clock))
    assert found().source == "proposal"
    assert done == [proposed(built)], "the first is finished in any case"


def test_a_guess_that_fails_costs_itself(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = proposed(2)
    timed({second: 2.0})
    solver = type(find_solver("nest"))
    lower = solver.lower

    def lowered(self: Any, problem: Any, device: Any, config: Any) -> Any:
        if config["schedule"] == first:
            raise RuntimeError("no such loop")
        return lower(self, problem, device, config)

    monkeypatch.setattr(solver, "lower", lowered)
    assert chosen() == ("proposal", second)
    assert f"{first} (proposal) fails: RuntimeError: no such loop" in steps()["proposal"]


def test_an_entry_of_another_class_is_timed_beside_the_library_alone(
    places: Path, user_dir: Path, timed: Timed
) -> None:
    device = cpu.detect()
    other = replace(device, model="another", caches=())
    evidence = {"vector_bytes": device.vector_bytes}
    made = entry(KEY, device=other.class_key, evidence=evidence)
    Bank.open(places / "system").put(made)
    schedule = NEAR_CONFIG["schedule"]
    done = timed({schedule: 0.34, **dict.fromkeys(proposed(), 0.4)})
    assert found().source == "library"
    told = steps()
    assert f"{schedule} (system, other class) 0.34" in told["other class"]
    assert "(proposal) 0.4" in told["proposal"]
    assert done[0] == [schedule] and len(done) == 2
    Bank.open(user_dir).put(entry(KEY))
    assert found().source == "user", "what was measured here is not compared again"


def test_what_was_timed_goes_with_its_kernel(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    timed({proposed(2)[1]: 2.5})
    assert found().source == "proposal"
    settings = load_settings()
    (path,) = (settings.kernel_dirs[0] / kernel_cache.TIMED_CONFIGS).iterdir()
    kept = kernel_cache.read_timed_configs(path)
    assert kept is not None and kept.fastest is not None and kept.fastest.ratio == 2.5
    full = replace(settings, cache_limit=1)
    monkeypatch.setattr(kernel_cache, "in_use", frozenset)
    kernel_cache.trim(full)
    assert not path.exists()
    background._checks.clear()
    assert found().source == "proposal", "it is built and timed again"


def test_where_nothing_can_be_kept_it_is_timed_once_a_process(
    timed: Timed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(settings: Settings, *_: object) -> None:
        raise guesses.StorageError(f"disk full: no room in {settings.user_dir}")

    done = timed({proposed(2)[1]: 2.5})
    monkeypatch.setattr(guesses, "keep_timed_configs", full)
    for _ in range(3):
        bank_lookup._kept.clear()
        kernel = skipjack.lookup(KEY)
        assert kernel is not None and kernel.source == "proposal"
    assert len(done) == 1
    assert caplog.text.count("times cannot be stored") == 1


def test_least_times_tell_quick_calls_from_slow_ones() -> None:
    def slow() -> list[None]:
        return [None for _ in range(20_000)]

    quick_ns, slow_ns = guesses.least_times([lambda: None, slow])
    assert quick_ns < slow_ns


def test_rounds_end_when_the_time_is_up() -> None:
    calls: list[int] = []
    guesses.least_times([lambda: calls.append(1)], seconds=0.0)
    few = len(calls)
    guesses.least_times([lambda: calls.append(1)])
    assert len(calls) - few > few


def test_nothing_is_timed_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    device = describe_gpu("sm_90/132")
    question = Question(parse("add:96"), device, load_settings())
    monkeypatch.setattr(proposals, "_behind", dict)
    names = [name for name, _ in order._steps(question, strict=False)]
    assert names[-3:] == ["nearest", "proposal", "library"]
    monkeypatch.setattr(proposals, "_behind", lambda: {("cuda", "add", "f32", "", ""): 0.9})
    behind = list(order._steps(question, strict=False))
    assert [name for name, _ in behind][-3:] == ["proposal", "library", "proposal"]
    assert "0.9 times the speed of the library" in str(behind[-3][1](question))


def test_the_table_of_libraries_that_go_first_is_that_of_the_committed_benches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Path(__file__).parents[2] / "bench"
    monkeypatch.syspath_prepend(bench)
    made = importlib.import_module("library_first")
    assert made.TABLE.read_text() == json.dumps(made.table(), indent=1) + "\n"
    assert all(row["ratio"] < 1.0 for row in made.table()["behind"])
    assert all(row["kind"] != "cpu" for row in made.table()["behind"])
