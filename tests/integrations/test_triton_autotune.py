"""``@skipjack.autotune`` on a GPU that is not there: Triton compiles, launches are noted."""

import faulthandler
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processes import PATIENCE_S

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")
from autotune_rig import (  # noqa: E402
    THREE,
    Rig,
    add_one,
    by_block,
    compiler_that_fails,
    config,
    tuned,
)
from fake_triton import gpu  # noqa: E402
from triton.runtime.errors import OutOfResources  # noqa: E402

import skipjack  # noqa: E402
from skipjack.errors import SkipjackError, SpaceError, UsageError  # noqa: E402
from skipjack.ledger import Ledger  # noqa: E402


def test_the_fastest_config_is_found_and_kept_in_the_process(rig: Rig) -> None:
    kernel = tuned()
    assert rig.call(kernel).kwargs == {"BLOCK": 256}
    assert len(kernel.configs_timings) == 3
    before = len(rig.fake.launches)
    rig.call(kernel)
    assert len(rig.fake.launches) == before + 1


def test_other_values_of_the_key_are_tuned_for_themselves(rig: Rig) -> None:
    kernel = tuned()
    rig.call(kernel, 1000)
    rig.sampled()
    rig.call(kernel, 512)
    assert rig.sampled() == {64, 128, 256}


def test_another_process_finds_the_results(rig: Rig) -> None:
    rig.call(tuned())
    rig.sampled()
    again = tuned()  # what a second process has: the same text and an empty cache
    assert rig.call(again).kwargs == {"BLOCK": 256}
    assert not rig.sampled()


def test_a_config_that_is_added_is_timed_beside_the_leader_and_the_default(rig: Rig) -> None:
    rig.call(tuned())
    rig.sampled()
    assert rig.call(tuned([*THREE, config(512)])).kwargs == {"BLOCK": 512}
    assert rig.sampled() == {64, 256, 512}


def test_results_of_another_class_of_device_are_not_used(rig: Rig) -> None:
    rig.call(tuned())
    rig.sampled()
    add_one.device_caches.clear()
    with gpu(by_block, units=108) as other:
        rig.timer.fake = other
        rig.call(tuned())
    assert rig.sampled() == {64, 128, 256}


def test_results_are_not_kept_if_the_user_says_so(rig: Rig, user_dir: Path) -> None:
    rig.call(tuned(cache_results=False))
    assert not (user_dir / "ledger.sqlite").exists()


def test_a_damaged_file_is_set_aside_and_tuning_goes_on(rig: Rig, user_dir: Path) -> None:
    user_dir.mkdir(exist_ok=True)
    (user_dir / "ledger.sqlite").write_bytes(b"this is no database at all" * 100)
    assert rig.call(tuned()).kwargs == {"BLOCK": 256}
    assert list(user_dir.glob("ledger.sqlite.corrupt-*"))
    with Ledger.open(user_dir) as ledger:
        assert ledger.summary().candidates == 3


def test_a_directory_that_cannot_be_used_costs_only_the_memory(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "file"))
    assert rig.call(tuned()).kwargs == {"BLOCK": 256}
    assert "not stored" in caplog.text


def test_switched_off_takes_the_first_config_or_what_is_known(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_AUTOTUNE", "off")
    assert rig.call(tuned()).kwargs == {"BLOCK": 64}
    assert not rig.sampled()
    monkeypatch.setenv("SKIPJACK_AUTOTUNE", "on")
    rig.call(tuned())
    monkeypatch.setenv("SKIPJACK_AUTOTUNE", "off")
    assert rig.call(tuned()).kwargs == {"BLOCK": 256}


def test_a_policy_holds_for_decorated_kernels(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    with skipjack.tuning_policy("db"):
        assert rig.call(tuned()).kwargs == {"BLOCK": 64}
    assert not rig.sampled()
    monkeypatch.setenv("SKIPJACK_AUTOTUNE", "off")
    with skipjack.tuning_policy("incremental"):  # the program outranks the environment
        assert rig.call(tuned()).kwargs == {"BLOCK": 256}
    assert rig.sampled()
    with skipjack.tuning_policy("off"):
        assert rig.call(tuned()).kwargs == {"BLOCK": 64}
    assert not rig.sampled()
    with skipjack.tuning_policy("exhaustive"):
        assert rig.call(tuned()).kwargs == {"BLOCK": 256}
    assert rig.sampled()


def test_a_config_that_does_not_compile_is_a_status(rig: Rig) -> None:
    kernel = tuned([config(100), config(64)])  # Triton's ranges are powers of two
    assert rig.call(kernel).kwargs == {"BLOCK": 64}
    assert [one.kwargs["BLOCK"] for one in kernel.failures] == [100]
    assert "power of 2" in next(iter(kernel.failures.values()))


def crash() -> None:
    faulthandler.disable()  # it would write to the terminal
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_compiler_that_crashes_is_a_status_and_tried_again_later(rig: Rig) -> None:
    kernel = tuned()
    with compiler_that_fails(crash, 256):
        assert rig.call(kernel).kwargs == {"BLOCK": 128}
    assert "SIGSEGV" in next(iter(kernel.failures.values()))
    rig.sampled()
    assert rig.call(tuned()).kwargs == {"BLOCK": 256}
    assert rig.sampled() == {64, 128, 256}


def test_a_launch_that_is_refused_is_a_status(rig: Rig) -> None:
    def refuse(told: Any, values: object) -> float:
        if told.BLOCK == 256:
            raise OutOfResources(300_000, 232_448, "shared memory")
        return by_block(told, values)

    rig.fake.cost = refuse
    kernel = tuned()
    assert rig.call(kernel).kwargs == {"BLOCK": 128}
    assert "out of resource" in next(iter(kernel.failures.values()))


def test_an_illegal_address_ends_tuning_with_advice(rig: Rig) -> None:
    def fault(told: Any, values: object) -> float:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    rig.fake.cost = fault
    with pytest.raises(SkipjackError, match=r"skipjack tune file\.py::kernel"):
        rig.call(tuned())


def test_if_nothing_runs_the_first_reason_is_told(rig: Rig) -> None:
    with pytest.raises(SkipjackError, match="no config of add_one can run"):
        rig.call(tuned([config(100), config(50)]))


def test_what_is_to_be_restored_and_reset_is_as_it_was(rig: Rig) -> None:
    def spoil(told: Any, values: Any) -> float:
        values[0].add_(1.0)
        values[1].add_(1.0)
        return by_block(told, values)

    rig.fake.cost = spoil
    rig.y += 7.0
    rig.call(tuned(restore_value=["x"], reset_to_zero=["y"]))
    # One launch after tuning: the user's.
    assert rig.x.unique().tolist() == [1.0]
    assert rig.y.unique().tolist() == [1.0]


def test_hooks_are_called_as_triton_calls_them(rig: Rig) -> None:
    seen: list[str] = []
    one = config(64, pre_hook=lambda args: seen.append(f"config {args['BLOCK']}"))
    kernel = tuned(
        [one, config(128)],
        pre_hook=lambda args, reset_only=False: seen.append("reset" if reset_only else "pre"),
        post_hook=lambda args, exception: seen.append("post"),
    )
    rig.call(kernel)
    assert seen.count("pre") == seen.count("post") > 2
    assert seen.count("reset") == 1
    assert "config 64" in seen


def test_pruning_works_as_in_triton(rig: Rig) -> None:
    early = {"early_config_prune": lambda configs, args, **_: configs[:2]}
    assert rig.call(tuned(prune_configs_by=early)).kwargs == {"BLOCK": 128}
    model = {"perf_model": lambda BLOCK, **_: BLOCK, "top_k": 1}
    kernel = tuned(prune_configs_by=model)
    assert rig.call(kernel, 640).kwargs == {"BLOCK": 64}


def test_a_benchmark_of_the_users_own_is_used(rig: Rig) -> None:
    def bench(call: Callable[[], None], quantiles: object) -> list[float]:
        call()
        return [float(rig.fake.launches[-1].BLOCK)] * 3

    assert rig.call(tuned(do_bench=bench)).kwargs == {"BLOCK": 64}


def test_heuristics_may_stand_below_and_above(rig: Rig) -> None:
    block = {"BLOCK": lambda args: 128 if args["n"] > 100 else 64}
    warps = [triton.Config({}, num_warps=w) for w in (4, 8)]
    below = skipjack.autotune(configs=warps, key=["n"])(triton.heuristics(block)(add_one))
    rig.call(below)
    assert rig.fake.launches[-1].BLOCK == 128
    above = triton.heuristics(block)(skipjack.autotune(configs=warps, key=["n"])(add_one))
    above[(8,)](rig.x, rig.y, 1000)
    assert rig.fake.launches[-1].BLOCK == 128


def test_a_space_is_searched_under_its_constraints(rig: Rig) -> None:
    kernel = skipjack.autotune(
        space={"BLOCK": [32, 64, 128, 256], "num_warps": [4, 8]},
        constraints=["BLOCK * 8 <= n", "BLOCK >= 16 * num_warps"],
        key=["n"],
    )(add_one)
    best = rig.call(kernel, 1024)
    assert best.kwargs == {"BLOCK": 128}
    assert rig.sampled() == {64, 128}
    again = skipjack.autotune(
        space={"BLOCK": [32, 64, 128, 256], "num_warps": [4, 8]},
        constraints=["BLOCK * 8 <= n", "BLOCK >= 16 * num_warps"],
        key=["n"],
    )(add_one)
    assert rig.call(again, 1024).kwargs == {"BLOCK": 128}
    assert not rig.sampled()


def test_a_budget_limits_what_is_tried(rig: Rig) -> None:
    kernel = skipjack.autotune(
        space={"BLOCK": [16, 32, 64, 128, 256]}, key=["n"], budget=2, searcher="random"
    )(add_one)
    rig.call(kernel)
    assert len(rig.sampled()) == 2


def test_mistakes_are_told_in_one_sentence(rig: Rig) -> None:
    with pytest.raises(UsageError, match="either configs"):
        skipjack.autotune(key=["n"])
    with pytest.raises(UsageError, match="need space="):
        skipjack.autotune(configs=THREE, budget=3)
    kernel = skipjack.autotune(space={"BLOCK": [64]}, constraints=["BLOK > 1"], key=[])(add_one)
    with pytest.raises(SpaceError, match="BLOK"):
        rig.call(kernel)
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        rig.call(tuned(), BLOCK=64)


def test_warming_up_compiles_everything_and_launches_nothing(rig: Rig) -> None:
    kernels = tuned().warmup(rig.x, rig.y, 1000, grid=(8,))
    assert [one.metadata.name for one in kernels] == ["add_one"] * 3
    assert not rig.fake.launches


def test_users_of_tritons_words_find_them(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    rig.call(tuned())
    said = capsys.readouterr().out
    assert "Triton autotuning for function add_one,\nwith key as (1000, 'torch.float32'," in said
    assert "best config selected: BLOCK: 256, num_warps: 4" in said


def test_without_a_gpu_the_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tuned()
    with pytest.raises(SkipjackError, match="no GPU here"):
        kernel[(8,)](torch.zeros(8), torch.zeros(8), 8)


PROGRAM = """
    import sys
    sys.path.insert(0, {tests!r})
    import triton
    import triton.language as tl
    import skipjack
    from fake_triton import FakeTensor, FakeTimer, gpu
    from skipjack.integrations.triton import call_session as gpu_timing

    # {comment}
    @skipjack.autotune(configs=[triton.Config({{"BLOCK": b}}) for b in (64, 128)], key=["n"])
    @triton.jit
    def twice(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

    with gpu(lambda told, _: 1000.0 / told.BLOCK) as fake:
        timer = FakeTimer(fake)
        gpu_timing.LaunchTimer = lambda graphs: timer
        twice[(4,)](FakeTensor(), 256)
        print(twice.best_config.kwargs["BLOCK"], len(timer.sampled))
"""


def start(folder: Path, comment: str) -> subprocess.Popen[str]:
    file = folder / f"{comment}.py"
    tests = str(Path(__file__).parent)
    file.write_text(textwrap.dedent(PROGRAM).format(tests=tests, comment=comment))
    return subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_tune_once_though_a_comment_differs(tmp_path: Path) -> None:
    both = [start(tmp_path, "one"), start(tmp_path, "other")]
    answers = sorted(process.communicate(timeout=PATIENCE_S)[0].split() for process in both)
    assert [block for block, _ in answers] == ["128", "128"]
    assert [int(sampled) > 0 for _, sampled in answers] == [False, True]


def test_all_configs_of_a_list_are_tried_also_after_the_seconds(rig: Rig) -> None:
    assert rig.call(tuned(seconds=1e-6)).kwargs == {"BLOCK": 256}
    assert rig.sampled() == {64, 128, 256}
