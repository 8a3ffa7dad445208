"""The doctor detects a machine on which kernels crash, and says what to do."""

from pathlib import Path

import pytest

from skipjack.core import Candidate, Config, Device, Problem, device
from skipjack.errors import WorkerError
from skipjack.native import cpu
from skipjack.report import doctor
from skipjack.report.doctor import HealthCheck, kernel_finding
from skipjack.settings import load_settings
from skipjack.tuning import try_kernels
from skipjack.tuning.config_timer import candidates_for


def rogues(problem: Problem, *behaviours: str) -> list[Candidate]:
    return [Candidate(problem, "rogue", Config(behaviour=one)) for one in behaviours]


def test_kernels_that_run_are_a_good_finding(user_dir: Path) -> None:
    found = kernel_finding(load_settings())
    assert found.level == "good", found
    assert found.text == f"{len(candidates_for(cpu.detect()))} were built and run, and are correct"


def test_an_illegal_instruction_is_named_with_its_remedy(
    rogue: Problem, user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = device.features_of("x86-64-v4")
    tried = try_kernels(load_settings(), rogues(rogue, "right", "trap"))
    monkeypatch.setattr(doctor, "try_kernels", lambda *arguments: tried)
    monkeypatch.setattr(cpu, "detect", lambda: Device("cpu", "znver4", 1, features=every))
    found = kernel_finding(load_settings())
    assert found.level == "bad"
    assert found.text.startswith(
        "1 of 2 fail; rogue:60:f32 by rogue: the kernel's process ended by"
    )
    assert "SIGILL" in found.text
    assert "set SKIPJACK_CPU_LEVEL=x86-64-v3, or x86-64-v2 if that" in found.text


def test_other_failures_are_to_be_reported(rogue: Problem, user_dir: Path) -> None:
    found = kernel_finding(load_settings(), rogues(rogue, "wrong", "bad_ir", "right"))
    assert (found.level, found.text[:12]) == ("bad", "2 of 3 fail;")
    assert "SKIPJACK_CPU_LEVEL" not in found.text
    assert found.text.endswith("report this with skipjack device --json")


def test_workers_that_do_not_start_are_a_finding(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise WorkerError("run workers fail again and again")

    monkeypatch.setattr(doctor, "try_kernels", fail)
    assert kernel_finding(load_settings()) == HealthCheck(
        "kernels", "bad", "none could be tried: run workers fail again and again"
    )
