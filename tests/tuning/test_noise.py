"""Times from disturbed rounds are shown as noisy, and nothing is banked by them."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from skipjack.core import Budget
from skipjack.execute import Block, Failure
from skipjack.tuning import Tuner
from skipjack.tuning.study import TuneOptions, TuneOutcome, TuneResult


@contextmanager
def never_quiet(tuner: Tuner) -> Iterator[None]:
    """Each block of this tuner was disturbed."""
    session = tuner.context.session
    time = session.time

    def disturbed(kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        timed, failures = time(kernels, blocks)
        return [replace(block, disturbed=True) for block in timed], failures

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "time", disturbed)
        yield


def tune(tuner: Tuner, problem: str, trials: int = 4) -> TuneResult:
    return tuner.tune(problem, TuneOptions(budget=Budget(trials=trials)))


def test_a_noisy_verdict_says_so_and_banks_nothing(tuner: Tuner) -> None:
    with never_quiet(tuner):
        result = tune(tuner, "add:65536")
    assert result.status is TuneOutcome.NOISY
    assert re.search(r" rounds beside (numpy|openblas|mkl|the default), so", result.reason)
    assert "close them, or give more --seconds" in result.reason
    assert result.to_json()["status"] == "noisy"
    bank = tuner.context.bank
    assert bank.lookup(result.problem.key, tuner.context.device.class_key) is None
    bank.rebuild(tuner.context.ledger)
    assert bank.lookup(result.problem.key, tuner.context.device.class_key) is None
    assert tune(tuner, "add:65536").status is not TuneOutcome.NOISY, "once it is quiet again"


def test_what_was_banked_stays(tuner: Tuner) -> None:
    key, device = "matmul:16x32x32:f32", tuner.context.device.class_key
    tune(tuner, key)
    before = tuner.context.bank.lookup(key, device)
    assert before is not None
    with never_quiet(tuner):
        assert tune(tuner, key, 8).status in (TuneOutcome.NOISY, TuneOutcome.KEPT)
    assert tuner.context.bank.lookup(key, device) == before


def test_a_noisy_ranking_is_not_kept(tuner: Tuner) -> None:
    with never_quiet(tuner):
        result = tuner.find("add:4096", TuneOptions(budget=Budget(trials=6)))
    device = tuner.context.device.class_key
    assert tuner.context.bank.lookup(result.problem.key, device, "find") is None
    assert "noisy" in result.reason
