"""A tuning on a fake GPU: the same loop, the same ledger and bank."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import skipjack
from processes import PATIENCE_S
from skipjack import plugins
from skipjack.bank import Bank
from skipjack.core import Budget, Candidate, Status
from skipjack.gpu import ABI
from skipjack.gpu.discovery import only_drivers
from skipjack.ledger import BuildRecord, CandidateKey
from skipjack.runtime import banked_kernels, full_lookup
from skipjack.runtime.checks import verified_code
from skipjack.runtime.local_kernels import GpuKernel
from skipjack.runtime.local_kernels.gpu_kernel import shared_gpu
from skipjack.settings import ARTIFACTS, Settings
from skipjack.solvers import find_solver
from skipjack.storage import ArtifactStore
from skipjack.testing.fake_gpu import DEVICE, FakeDriver
from skipjack.tuning import Tuner
from skipjack.tuning.study import TuneOptions, TuneOutcome, TuneResult

PLUGIN = Path(__file__).with_name("fake_gpu_solver.py")
FATES = {
    "slow": Status.OK,
    "right": Status.OK,
    "wrong": Status.WRONG,
    "behind": Status.WRONG,
    "fault": Status.CRASH,
    "fault_later": Status.CRASH,
    "hang": Status.TIMEOUT,
    "memory": Status.OUT_OF_MEMORY,
}
EVERYTHING = TuneOptions(budget=Budget(trials=len(FATES)), searcher="exhaustive")


@pytest.fixture(scope="module")
def gpu_tuner(home: Path) -> Iterator[Tuner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, "")
        plugins.load((str(PLUGIN),))
        patch.setenv(plugins.VARIABLE, str(PLUGIN))
        made = Tuner(Settings(home), DEVICE)
        made.context.protocol = replace(made.context.protocol, call_timeout_s=0.7)
        with made:
            yield made


@pytest.fixture(scope="module")
def result(gpu_tuner: Tuner) -> TuneResult:
    return gpu_tuner.tune("add:4096", EVERYTHING)


def test_every_config_becomes_a_trial_with_its_status(result: TuneResult) -> None:
    assert {trial.config["behaviour"]: trial.status for trial in result.trials} == FATES


def test_the_fast_one_wins_and_is_banked_for_the_gpu(result: TuneResult, gpu_tuner: Tuner) -> None:
    assert result.status is TuneOutcome.BANKED
    assert result.best["behaviour"] == "right"
    assert result.speedup.default.ratio == pytest.approx(3.0)
    entry = gpu_tuner.context.bank.lookup("add:4096:f32", DEVICE.class_key)
    assert entry is not None
    assert entry.config == {"behaviour": "right"}


def test_measurements_say_how_gpus_are_timed(result: TuneResult, gpu_tuner: Tuner) -> None:
    (study,) = gpu_tuner.context.ledger.studies("add:4096:f32")
    assert '"caches":"rotating"' in study.protocol


@pytest.fixture
def machine() -> Iterator[None]:
    """A machine whose first GPU is another one."""
    with only_drivers(FakeDriver([replace(DEVICE, arch="fake_0"), DEVICE])):
        shared_gpu.cache_clear()
        yield
    shared_gpu.cache_clear()


@pytest.fixture
def the_gpu() -> Iterator[None]:
    """A machine as its workers see it."""
    with only_drivers(FakeDriver()):
        shared_gpu.cache_clear()
        yield
    shared_gpu.cache_clear()


def test_results_and_lookups_are_for_the_gpu_that_was_tuned(
    result: TuneResult, home: Path, machine: None
) -> None:
    assert isinstance(result.kernel(), GpuKernel)
    found = skipjack.lookup("add:4096", device=DEVICE.name, settings=Settings(home))
    assert isinstance(found, GpuKernel)
    assert skipjack.lookup("add:4096", device=DEVICE.name, settings=Settings(home)) is found
    with only_drivers(FakeDriver()):
        shared_gpu.cache_clear()
        other = skipjack.lookup("add:4096", device=DEVICE.name, settings=Settings(home))
        assert isinstance(other, GpuKernel) and other is not found, "it is of other GPUs"


def test_a_lookup_compiles_nothing_for_a_gpu(
    result: TuneResult, home: Path, machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_nothing(*_: object) -> None:
        pytest.fail("it was compiled in the caller's process")

    monkeypatch.setattr(type(find_solver("fake_gpu")), "compile", compile_nothing)
    kept = home / ARTIFACTS
    kept.rename(home / "elsewhere")
    try:
        assert (
            skipjack.lookup("add:4096", device=DEVICE.name, settings=Settings(home), strict=True)
            is None
        )
    finally:
        (home / "elsewhere").rename(kept)


@pytest.mark.parametrize(("behaviour", "source"), [("right", "user"), ("wrong", "")])
def test_what_was_not_verified_here_is_built_and_verified_by_other_processes(
    result: TuneResult,
    gpu_tuner: Tuner,
    tmp_path: Path,
    the_gpu: None,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
    source: str,
) -> None:
    def compile_nothing(*_: object) -> None:
        pytest.fail("it was compiled in the caller's process")

    monkeypatch.setattr(type(find_solver("fake_gpu")), "compile", compile_nothing)
    monkeypatch.setattr(verified_code, "find_spec", lambda name: name)  # Triton is there
    monkeypatch.setattr(full_lookup, "_PATIENCE_S", PATIENCE_S)
    entry = gpu_tuner.context.bank.lookup("add:4096:f32", DEVICE.class_key)
    assert entry is not None
    Bank.open(tmp_path).put(replace(entry, config={"behaviour": behaviour}))
    chosen = Settings(tmp_path, plugins=(str(PLUGIN),))
    found = skipjack.lookup("add:4096", device=DEVICE.name, settings=chosen)
    if source:
        assert isinstance(found, GpuKernel) and found.source == source
        monkeypatch.setattr(verified_code, "find_spec", lambda name: None)
        skipjack.reload()
        again = skipjack.lookup("add:4096", device=DEVICE.name, settings=chosen, strict=True)
        assert again is not None, "it is remembered"
    else:
        assert found is None or found.source != "user"


def test_what_ships_is_the_build_that_was_banked(
    result: TuneResult, gpu_tuner: Tuner, home: Path, machine: None
) -> None:
    assert result.code is not None
    other = ArtifactStore(home / ARTIFACTS).put(b"built since then, and never run")
    candidate = Candidate(result.problem, "fake_gpu", result.best)
    gpu_tuner.context.ledger.add_build(
        BuildRecord("f" * 64, DEVICE.compat_key, Status.OK, other, "gpu", ABI),
        CandidateKey.of(candidate, 1),
    )
    ((record, data),) = banked_kernels(Settings(home)).kernels
    assert (record.artifact, record.abi) == (result.code.digest, ABI)
    assert data == result.code.data
