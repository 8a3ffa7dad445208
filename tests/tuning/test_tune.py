"""Tuning through the public API: results, kernels, continuing, starting over."""

from pathlib import Path

import numpy as np
import pytest

import skipjack
from skipjack.bank import Bank
from skipjack.core import Budget
from skipjack.errors import ProblemError, UsageError
from skipjack.ledger import Ledger
from skipjack.settings import Settings
from skipjack.tuning import Tuner
from skipjack.tuning.study import TuneOptions, TuneOutcome, TuneResult

MATMUL = "matmul:24x40x16"
RNG = np.random.default_rng(0)


def options(trials: int, **more: object) -> TuneOptions:
    return TuneOptions(budget=Budget(trials=trials), **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def first(tuner: Tuner) -> TuneResult:
    return tuner.tune(MATMUL, options(12, searcher="genetic"))


def test_a_result_agrees_with_itself_and_with_the_bank(first: TuneResult, tuner: Tuner) -> None:
    """Which outcome depends on the machine; `test_tuning_outcomes` pins them on made-up times."""
    assert len(first.trials) == 12
    assert first.best in [trial.config for trial in first.trials if trial.ok]
    assert 0 < first.builds <= 12
    gain = first.speedup.default
    assert gain.low <= gain.ratio <= gain.high
    assert first.default_ns / first.time_ns == pytest.approx(gain.ratio, rel=1e-3)
    assert first.vendor_ns is not None
    entry = tuner.context.bank.lookup(first.problem.key, tuner.context.device.class_key)
    if first.status is TuneOutcome.NOISY:
        assert entry is None
        return
    assert entry is not None
    library = first.status is TuneOutcome.VENDOR
    assert entry.config == ({} if library else dict(first.best))
    assert (gain.low > 1.0) or first.status is not TuneOutcome.BANKED


def test_its_kernel_computes(first: TuneResult) -> None:
    a, b = RNG.normal(size=(24, 16)).astype("f4"), RNG.normal(size=(16, 40)).astype("f4")
    kernel = first.kernel()
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4, atol=1e-5)
    out = np.full((24, 40), np.nan, "f4")
    assert kernel(a, b, out=out) is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-5)
    turned = np.asfortranarray(a)
    np.testing.assert_allclose(kernel(turned, b), a @ b, rtol=1e-4, atol=1e-5)


def test_wrong_arrays_are_refused(first: TuneResult) -> None:
    a, b = np.zeros((24, 16), "f4"), np.zeros((16, 40), "f4")
    kernel = first.kernel()
    with pytest.raises(UsageError, match=r"float32 of shape \(24, 16\)"):
        kernel(a.T, b)
    with pytest.raises(UsageError, match="not float64"):
        kernel(a.astype("f8"), b)
    with pytest.raises(UsageError, match="takes 2 arrays"):
        kernel(a)
    with pytest.raises(UsageError, match="out must be float32"):
        kernel(a, b, out=np.zeros((24, 41), "f4"))
    with pytest.raises(UsageError, match="contiguous"):
        kernel(a, b, out=np.zeros((40, 24), "f4").T)
    whole = np.zeros(24 * 40 + 16 * 40, "f4")
    inside = whole[: 16 * 40].reshape(16, 40)
    with pytest.raises(UsageError, match="overlap"):
        kernel(a, inside, out=whole[: 24 * 40].reshape(24, 40))


def test_running_again_continues(first: TuneResult, tuner: Tuner) -> None:
    ledger = tuner.context.ledger
    (study,) = ledger.studies(f"{MATMUL}:f32")
    before = {trial.config.key for trial in ledger.trials(study.id)}
    second = tuner.tune(MATMUL, options(6, searcher="genetic"))
    after = {trial.config.key for trial in ledger.trials(study.id)}
    assert [record.id for record in ledger.studies(f"{MATMUL}:f32")] == [study.id]
    assert len(after) == len(before) + len(second.trials)
    assert second.builds <= len(second.trials)
    assert not {trial.config.key for trial in second.trials} & before


def test_starting_over_forgets_the_study_but_not_the_builds(
    first: TuneResult, tuner: Tuner
) -> None:
    again = tuner.tune(MATMUL, options(12, searcher="genetic", retune=True))
    ledger = tuner.context.ledger
    (study,) = ledger.studies(f"{MATMUL}:f32")
    assert study.epoch == 1
    assert len(ledger.trials(study.id)) == len(again.trials) == 12
    known = {trial.config.key for trial in first.trials}
    assert again.builds <= sum(trial.config.key not in known for trial in again.trials)


def test_another_seed_is_another_study(first: TuneResult, tuner: Tuner) -> None:
    tuner.tune(MATMUL, options(2, searcher="random", seed=5))
    assert len(tuner.context.ledger.studies(f"{MATMUL}:f32")) == 2


def test_the_bank_made_anew_has_the_same_bytes(first: TuneResult, tuner: Tuner) -> None:
    bank = tuner.context.bank
    tuner.tune("add:64", options(3))
    bank.join({})
    bytes_before = bank.path.read_bytes()
    bank.rebuild(tuner.context.ledger)
    assert bank.path.read_bytes() == bytes_before


def test_run_time_settings_share_builds(tuner: Tuner) -> None:
    result = tuner.tune("matmul:32x48x64", options(24, solver="microkernel"))
    assert result.solver == "microkernel"
    assert 0 < result.builds < len(result.trials)
    a, b = RNG.normal(size=(32, 64)).astype("f4"), RNG.normal(size=(64, 48)).astype("f4")
    np.testing.assert_allclose(result.kernel()(a, b), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("problem", ["sum:6x9/axis=1", "add:5x3", "relu:17", "bias:4x6"])
def test_every_family_tunes(tuner: Tuner, problem: str) -> None:
    from skipjack.operations import get, parse

    asked = parse(problem, "f64")
    result = tuner.tune(asked, options(4))
    operation = get(asked.operation)
    arrays = {t.name: RNG.normal(size=t.shape) for t in operation.inputs(asked)}
    expected = operation.reference(asked, arrays)
    np.testing.assert_allclose(result.kernel()(*arrays.values()), expected, rtol=1e-12, atol=1e-13)


def test_a_study_with_the_same_seed_asks_the_same(user_dir: Path) -> None:
    """A random search does not look at results, whose order depends on the workers."""
    asked = []
    for place in (user_dir / "one", user_dir / "two"):
        with Tuner(Settings(place)) as tuner:
            tuner.tune("neg:33", options(6, searcher="random", seed=9))
            ledger = tuner.context.ledger
            (study,) = ledger.studies()
            asked.append([entry.config for entry in ledger.log(study.id) if entry.kind == "ask"])
    assert len(asked[0]) == 6
    assert asked[0] == asked[1]


def test_the_function_tunes_here_and_now(user_dir: Path) -> None:
    result = skipjack.tune("add:32", seconds=0.5)
    assert result.problem.key == "add:32:f32"
    x, y = np.arange(32, dtype="f4"), np.ones(32, "f4")
    assert (result.kernel()(x, y) == x + y).all()
    known = {(e.problem, e.device_name) for e in Bank.open(user_dir).entries()}
    enters = result.status is not TuneOutcome.NOISY
    assert known == ({("add:32:f32", result.device)} if enters else set())
    with Ledger.open(user_dir) as ledger:
        assert ledger.summary().tells == len(result.trials)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"problem": "nothing:3"}, ProblemError),
        ({"problem": "matmul:3x4"}, ProblemError),
        ({"problem": "matmul:300000x300000x300000"}, ProblemError),
        ({"problem": "add:8", "dtype": "f16"}, UsageError),
        ({"problem": "add:8", "searcher": "oracle"}, UsageError),
        ({"problem": "add:8", "solver": "wizard"}, UsageError),
        ({"problem": "add:8", "solver": "numpy"}, UsageError),
        ({"problem": "add:8", "budget": 0}, UsageError),
        ({"problem": "add:8", "seconds": -1.0}, UsageError),
        ({"problem": "add:8", "seconds": float("nan")}, UsageError),
        ({"problem": "add:8", "seconds": float("inf")}, UsageError),
        ({"problem": "add:8", "seed": -1}, UsageError),
        ({"problem": "add:8", "plugins": ["no_such_module"]}, UsageError),
    ],
)
def test_a_wrong_request_is_a_usage_error(
    user_dir: Path, arguments: dict[str, object], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        skipjack.tune(**arguments)  # type: ignore[arg-type]
