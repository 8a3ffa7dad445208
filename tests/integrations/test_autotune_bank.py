"""``@skipjack.autotune`` on the study engine: evidence in the bank, outcomes, Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")
from autotune_rig import THREE, Rig, add_one, by_block, config, tuned  # noqa: E402
from triton.runtime.errors import OutOfResources  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import skipjack  # noqa: E402
from skipjack.bank import FILE_NAME, Bank, BankEntry  # noqa: E402
from skipjack.cli.main import app  # noqa: E402
from skipjack.core import Status  # noqa: E402
from skipjack.errors import SkipjackError  # noqa: E402
from skipjack.ledger import Ledger  # noqa: E402


def entries(directory: Path) -> list[BankEntry]:
    return Bank(directory / FILE_NAME).entries()


def statuses(directory: Path) -> Mapping[int, set[Status]]:
    """What the ledger holds of each block."""
    found: dict[int, set[Status]] = {}
    with Ledger.open(directory) as ledger:
        (problem,) = {one.problem for one in ledger.studies()}
        for record in ledger.measurements(problem):
            config = block_of(record.candidate.config)
            found.setdefault(config, set()).add(record.status)
    return found


def block_of(text: str) -> int:
    from skipjack.core import Config

    return int(Config.from_key(text)["BLOCK"])


def test_the_winner_is_banked_with_its_evidence(rig: Rig, user_dir: Path) -> None:
    rig.call(tuned())
    (entry,) = entries(user_dir)
    assert entry.problem.startswith("autotune:add_one/source=")
    assert dict(entry.config) == {
        "BLOCK": 256,
        "num_ctas": 1,
        "num_stages": 3,
        "num_warps": 4,
    }
    assert entry.time_ns == pytest.approx(1e6 / 256)
    assert entry.default_ns == pytest.approx(1e6 / 64)
    assert entry.speedup["default"]["ratio"] == pytest.approx(4.0)
    assert entry.evidence["outcome"] == "banked"
    assert entry.evidence["samples"] >= 20
    assert entry.toolchain.startswith("triton 3")


def test_what_is_banked_is_handed_back_without_a_ledger(rig: Rig, user_dir: Path) -> None:
    rig.call(tuned())
    (user_dir / "ledger.sqlite").unlink()
    rig.sampled()
    assert rig.call(tuned()).kwargs == {"BLOCK": 256}
    assert not rig.sampled()


def test_a_faster_config_takes_the_place_of_the_banked_one(rig: Rig, user_dir: Path) -> None:
    rig.call(tuned())
    rig.call(tuned([*THREE, config(512)]))
    (entry,) = entries(user_dir)
    assert entry.config["BLOCK"] == 512
    assert entry.evidence["replaced"]["config"]["BLOCK"] == 256


def test_a_gain_that_is_not_confirmed_leaves_the_first_config(rig: Rig, user_dir: Path) -> None:
    rig.fake.cost = lambda told, _: 1e6 - told.BLOCK  # less than a thousandth apart
    assert rig.call(tuned()).kwargs == {"BLOCK": 64}
    rig.sampled()
    assert rig.call(tuned()).kwargs == {"BLOCK": 64}
    assert not rig.sampled()


def test_failures_are_trials_with_outcomes(rig: Rig, user_dir: Path) -> None:
    def cost(told: Any, values: object) -> float:
        if told.BLOCK == 128:
            raise OutOfResources(300_000, 232_448, "shared memory")
        if told.BLOCK == 256:
            raise RuntimeError("the launch crashed")
        return by_block(told, values)

    rig.fake.cost = cost
    kernel = tuned([config(64), config(128), config(256), config(100)])
    assert rig.call(kernel).kwargs == {"BLOCK": 64}
    assert len(kernel.failures) == 3
    assert statuses(user_dir) == {
        64: {Status.OK},
        100: {Status.BUILD_ERROR},
        128: {Status.OUT_OF_MEMORY},
        256: {Status.ERROR},
    }


def test_a_result_that_the_post_hook_refuses_is_wrong(rig: Rig, user_dir: Path) -> None:
    def check(args: Any, exception: Exception | None) -> None:
        assert args["BLOCK"] != 256, "the sum is off by one"

    kernel = tuned(post_hook=check)
    assert rig.call(kernel).kwargs == {"BLOCK": 128}
    assert ["off by one" in why for why in kernel.failures.values()] == [True]
    assert statuses(user_dir)[256] == {Status.WRONG}


def test_a_fault_of_the_gpu_is_written_down_before_tuning_ends(rig: Rig, user_dir: Path) -> None:
    def fault(told: Any, values: object) -> float:
        if told.BLOCK == 256:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return by_block(told, values)

    rig.fake.cost = fault
    with pytest.raises(SkipjackError, match="broke the GPU's context"):
        rig.call(tuned())
    assert statuses(user_dir)[256] == {Status.CRASH}


def test_ctrl_c_keeps_what_was_timed_and_decides_nothing(rig: Rig, user_dir: Path) -> None:
    blocks = [16, 32, 64, 128, 256, 512, 1024, 2048]
    interrupted = False

    def cost(told: Any, values: object) -> float:
        nonlocal interrupted
        if len(rig.timer.sampled) == 3 and not interrupted:
            interrupted = True
            os.kill(os.getpid(), signal.SIGINT)
        return by_block(told, values)

    rig.fake.cost = cost
    with pytest.raises(KeyboardInterrupt):
        rig.call(tuned([config(one) for one in blocks]))
    assert entries(user_dir) == []
    kept = set(statuses(user_dir))
    assert kept and kept < set(blocks)
    rig.sampled()
    assert rig.call(tuned([config(one) for one in blocks])).kwargs == {"BLOCK": 2048}
    again = rig.sampled() & kept
    assert len(again) <= 2, "of what was timed, the best and the default run beside the others"


def test_the_end_of_a_search_is_part_of_the_evidence(rig: Rig, user_dir: Path) -> None:
    kernel = skipjack.autotune(space={"BLOCK": [64, 128, 256]}, key=["n"])(add_one)
    rig.call(kernel)
    (entry,) = entries(user_dir)
    assert '"searched":' in entry.evidence["searched"]
    with Ledger.open(user_dir) as ledger:
        assert ledger.marks(entry.problem) == []


def test_the_bank_shows_all_calls_of_a_kernel_by_its_name(rig: Rig) -> None:
    kernel = tuned()
    rig.call(kernel, 1000)
    rig.call(kernel, 512)
    shown = CliRunner().invoke(app, ["bank", "show", "autotune:add_one"])
    assert shown.exit_code == 0
    assert shown.output.count("triton_autotune, version 1") == 2
    unknown = CliRunner().invoke(app, ["bank", "show", "autotune:add"])
    assert unknown.exit_code == 1
