"""Who answers a lookup: the order of banks, and what comes behind them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

import skipjack
from processes import PATIENCE_S
from skipjack.bank import FILE_NAME, Bank, BankEntry, LaunchData, has_system
from skipjack.core import Config, Device, Problem, Promising
from skipjack.errors import UsageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime import bank_lookup, full_lookup
from skipjack.runtime.answers import ProposedConfig, proposals, register_heuristic
from skipjack.runtime.checks import background
from skipjack.runtime.process import TuningPolicy, policy, program
from skipjack.settings import Settings
from skipjack.solvers import find_solver

KEY = "add:96"


@pytest.fixture(autouse=True)
def places(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is remembered, and the system's bank is one that a test may fill."""
    monkeypatch.setattr(bank_lookup, "_kept", {})
    monkeypatch.setattr(program, "_said", set())
    monkeypatch.delenv("SKIPJACK_BANKS", raising=False)
    monkeypatch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(tmp_path / "system"))
    return tmp_path


def entry(key: str = KEY, **changes: Any) -> BankEntry:
    problem, device = parse(key), cpu.detect()
    solver = find_solver("nest")
    made = BankEntry(
        problem=problem.key,
        device=device.class_key,
        device_name=device.name,
        solver="nest",
        solver_version=solver.version,
        config=dict(solver.space(problem, device).default()),
        time_ns=100.0,
        default_ns=200.0,
        vendor_ns=None,
        vendor="",
        speedup={"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}},
    )
    return replace(made, **changes)


def library(key: str = KEY) -> BankEntry:
    return replace(entry(key), solver="numpy", solver_version=1, config={})


def found(key: str = KEY, **options: Any) -> Any:
    skipjack.reload()
    kernel = skipjack.lookup(key, **options)
    assert kernel is not None
    return kernel


def right(kernel: Any) -> bool:
    a = np.arange(96, dtype=np.float32)
    return bool(np.array_equal(kernel(a, a), a + a))


def test_banks_are_asked_in_their_order(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found().source == "proposal"
    Bank.open(places / "system").put(entry())
    assert found().source == "system"
    Bank(places / "site.jsonl").put(entry())
    Bank.open(places / "team").put(entry())
    banks = (places / "team", places / "site.jsonl")
    monkeypatch.setenv("SKIPJACK_BANKS", os.pathsep.join(map(str, banks)))
    assert found().source == "bank team"
    monkeypatch.setenv("SKIPJACK_BANKS", os.pathsep.join(map(str, reversed(banks))))
    assert found().source == "bank site"
    Bank.open(places / "user").put(library())
    kernel = found()
    assert (kernel.source, kernel.solver) == ("user", "numpy") and right(kernel)


def test_the_first_proposal_answers_where_no_bank_knows_the_problem() -> None:
    kernel = found()
    assert (kernel.source, kernel.solver) == ("proposal", "nest")
    assert right(kernel)
    assert skipjack.lookup(KEY) is kernel, "it is remembered"


def test_the_default_is_never_handed_out() -> None:
    problem, device = parse("matmul:96x96x96"), cpu.detect()
    space = find_solver(found("matmul:96x96x96").solver).space(problem, device)
    told = full_lookup.explain("matmul:96x96x96").decision
    assert told.answer is not None and isinstance(space, Promising)
    assert told.answer.config == dict(space.promising(1)[0]) != dict(space.default())


def test_a_library_answers_where_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no compiler today")

    monkeypatch.setattr(type(find_solver("nest")), "compile", fail)
    kernel = found()
    assert (kernel.source, kernel.solver) == ("library", "numpy") and right(kernel)


def test_an_entry_of_another_class_answers_if_it_fits(places: Path) -> None:
    device = cpu.detect()
    other = replace(device, model="another", caches=())
    evidence = {"vector_bytes": device.vector_bytes}
    made = entry(device=other.class_key, evidence=evidence)
    Bank.open(places / "system").put(made)
    kernel = found()
    assert kernel.source == "system, other class" and right(kernel)
    Bank.open(places / "user").put(made)
    assert found().source == "user, other class"


def test_an_entry_of_another_class_answers_for_its_deployment_alone(places: Path) -> None:
    device = cpu.detect()
    evidence = {"vector_bytes": device.vector_bytes}
    other = replace(device, model="another").class_key
    made = entry(device=other, evidence=evidence, protocol="eager/hot")
    assert made.deployed == "eager/hot"
    Bank.open(places / "system").put(made)
    assert found().source == "proposal"
    assert found(protocol="eager/hot").source == "system, other class"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"evidence": {"vector_bytes": 8}}, "is for vectors of 64 bits"),
        ({"device": "cpu:znver4/64:0123"}, "is for 64 threads"),
        ({"device": "cuda:sm_90/132:0123"}, "is for a different kind of device"),
        ({"launch": LaunchData("0" * 64, compat="cpu:z80")}, "was built for cpu:z80"),
    ],
)
def test_an_entry_of_a_class_that_does_not_fit_is_passed_over(
    places: Path, changes: dict[str, Any], says: str
) -> None:
    device = cpu.detect()
    evidence = {"vector_bytes": device.vector_bytes}
    other = replace(device, model="another").class_key
    Bank.open(places / "system").put(entry(**{"device": other, "evidence": evidence, **changes}))
    steps = {step.step: step.said for step in full_lookup.explain(KEY).decision.steps}
    assert says in steps["other class"]
    assert found().source == "proposal"


def test_what_is_best_for_a_near_problem_answers(places: Path) -> None:
    config = {"schedule": "i:16 i/v"}
    known = [entry("add:1000", config=config), entry("add:100", config=config)]
    Bank.open(places / "system").add(known)
    kernel = found()
    assert kernel.source == "nearest" and right(kernel)
    Bank.open(places / "user").put(entry("add:97", config=config))
    assert found().source == "nearest"
    assert found("add:5000").source == "proposal", "more than one doubling away"
    assert found("add:4096", dtype="f64").source == "proposal", "another type"


def test_the_users_directory_as_the_systems_switches_guesses_off(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(places / "user").put(entry("add:97"))
    monkeypatch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(places / "user"))
    steps = {step.step: step.said for step in full_lookup.explain(KEY).decision.steps}
    assert "disabled with the system's bank" in steps["nearest"]
    assert "disabled with the system's bank" in steps["heuristic"]
    assert found().source == "proposal"


class _Sure:
    name = "sure"

    def __init__(self, config: dict[str, Any] | None) -> None:
        self.config = config

    def propose(self, problem: Problem, device: Device) -> ProposedConfig | None:
        return None if self.config is None else ProposedConfig("nest", Config(self.config))


def test_a_heuristic_answers_where_it_is_confident(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(places / "system").put(entry("add:97"))
    monkeypatch.setattr(proposals, "_heuristics", {})
    register_heuristic(_Sure(None))
    assert found().source == "nearest"
    monkeypatch.setattr(proposals, "_heuristics", {})
    register_heuristic(_Sure(dict(entry().config)))
    kernel = found()
    assert (kernel.source, kernel.solver) == ("heuristic", "nest") and right(kernel)


def test_a_library_answers_while_a_kernel_is_verified(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, lower = Event(), type(find_solver("nest")).lower

    def slowly(*arguments: Any) -> Any:
        assert go_on.wait(PATIENCE_S)
        return lower(*arguments)

    monkeypatch.setattr(type(find_solver("nest")), "lower", slowly)
    monkeypatch.setattr(full_lookup, "_PATIENCE_S", 0.01)
    Bank.open(places / "user").put(entry())
    kernel = found()
    assert (kernel.source, kernel.solver) == ("library", "numpy") and right(kernel)
    assert skipjack.lookup(KEY) is kernel
    (check,) = background._checks.values()
    go_on.set()
    assert check.finished.wait(PATIENCE_S)
    kernel = skipjack.lookup(KEY)
    assert kernel is not None
    assert (kernel.source, kernel.solver) == ("user", "nest") and right(kernel)


def test_a_kernel_that_fails_beside_the_program_is_checked_once(
    places: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    def fail(*_: object) -> None:
        calls.append(1)
        raise RuntimeError("broken")

    monkeypatch.setattr(type(find_solver("nest")), "compile", fail)
    Bank.open(places / "user").put(entry())
    failed: list[int] = []
    for _ in range(3):
        bank_lookup._kept.clear()
        assert right(skipjack.lookup(KEY))
        failed.append(len(calls))
    assert failed == [failed[0]] * 3, "the entry's, and the proposals"
    assert caplog.text.count("the bank's entry cannot be used: RuntimeError: broken") == 1


def test_strict_asks_the_users_bank_alone(places: Path) -> None:
    Bank.open(places / "system").put(entry())
    assert skipjack.lookup(KEY, strict=True) is None
    Bank.open(places / "user").put(entry())
    assert found(strict=True).source == "user"


def test_an_entry_that_is_of_no_use_is_passed_over_for_the_next_bank(
    places: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Bank.open(places / "user").put(entry(solver_version=99))
    Bank.open(places / "system").put(entry())
    for _ in range(2):
        assert found().source == "system"
    assert len(caplog.messages) == 1 and "version 99 of solver nest" in caplog.text


def test_entries_that_are_of_no_use_are_counted(
    places: Path, caplog: pytest.LogCaptureFixture
) -> None:
    useless = [entry(solver_version=version) for version in (97, 98, 99)]
    Bank.open(places / "user").add(useless)
    assert right(found())
    assert (
        "3 entries cannot be used, the first because the bank's kernel is by version" in caplog.text
    )


def test_a_bank_that_cannot_be_read_costs_one_warning(
    places: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (places / "user" / FILE_NAME).mkdir(parents=True)
    monkeypatch.setenv("SKIPJACK_BANKS", str(places / "nowhere.jsonl"))
    for _ in range(2):
        assert right(found())
    first, second = caplog.messages
    assert "cannot read the bank" in first
    assert second == f"there is no bank at {places / 'nowhere.jsonl'}, which SKIPJACK_BANKS lists"


def test_the_users_directory_as_the_systems_switches_that_off(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bank.open(places / "user").put(entry("add:95"))
    monkeypatch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(places / "user"))
    steps = full_lookup.explain(KEY).decision.steps
    assert "system" not in [step.step for step in steps]


def test_a_link_to_the_users_directory_is_the_users_directory(places: Path) -> None:
    Bank.open(places / "user").put(entry())
    (places / "link").symlink_to(places / "user")
    assert not has_system(places / "user", places / "link")
    assert has_system(places / "another", places / "link")


def test_an_explicit_config_is_asked_for_nobody_else(places: Path) -> None:
    Bank.open(places / "user").put(library())
    config = entry().config
    kernel = found(solver="nest", config=config)
    assert (kernel.source, kernel.solver) == ("explicit", "nest") and right(kernel)
    assert found(solver="numpy").solver == "numpy"
    with pytest.raises(UsageError, match="is not in the space of solver nest"):
        skipjack.lookup(KEY, solver="nest", config=Config({"schedule": "x"}))
    with pytest.raises(UsageError, match=r"the config \{\} is not in the space of solver nest"):
        skipjack.lookup(KEY, solver="nest", config={})
    with pytest.raises(
        UsageError, match="give a dictionary, each key a string and each value True"
    ):
        skipjack.lookup(KEY, solver="nest", config={"schedule": None})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="solver numpy is a library, which has no configs: leave"):
        skipjack.lookup(KEY, solver="numpy", config={"a": 1})
    with pytest.raises(UsageError, match="unknown solver 'nope': known are"):
        skipjack.lookup(KEY, solver="nope")
    with pytest.raises(UsageError, match="give config= as well"):
        skipjack.lookup(KEY, solver="nest")
    with pytest.raises(UsageError, match="give solver= as well"):
        skipjack.lookup(KEY, config=config)


def test_reload_forgets_what_was_looked_up() -> None:
    first = skipjack.lookup(KEY)
    assert skipjack.lookup(KEY) is first
    skipjack.reload()
    assert skipjack.lookup(KEY) is not first


def test_the_policy_off_asks_no_bank(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Bank.open(places / "user").put(entry())
    monkeypatch.setattr(bank_lookup, "current_policy", lambda: TuningPolicy("off"))
    assert found().source == "library"


def test_more_threads_than_cores_are_the_librarys(places: Path) -> None:
    kernel = found(threads=1000)
    assert kernel.source == "library" and right(kernel)
    assert skipjack.lookup(KEY, threads=1000, strict=True) is None


def test_settings_name_banks_as_well(places: Path) -> None:
    Bank(places / "site.jsonl").put(entry())
    settings = Settings(places / "user", banks=(places / "site.jsonl",))
    assert found(settings=settings).source == "bank site"


def test_explain_says_why_each_step_was_passed_over(places: Path) -> None:
    Bank.open(places / "system").put(library())
    Bank.open(places / "user").put(entry(solver="gone"))
    told = full_lookup.explain(KEY)
    steps = told.decision.steps[2:]
    assert [(step.step, step.answered) for step in steps] == [("user", False), ("system", True)]
    assert "solver gone, which is not known here" in steps[0].said
    assert steps[1].said == "numpy"
    record = json.loads(json.dumps(told.record()))
    assert (record["source"], record["solver"], record["policy"]) == ("system", "numpy", "db")
    assert record["steps"][0]["step"] == "explicit config"
    assert policy.current_policy().mode == "db"
