"""Kernels that crash, hang or are wrong: each gets its own failure, the others are timed."""

import hashlib
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skipjack.core import Problem, Status, TimingProtocol
from skipjack.errors import WorkerError
from skipjack.execute import Loadable, RunSession
from skipjack.native import cpu, llvm
from skipjack.operations import parse

Make = Callable[[str], Loadable]


def test_a_right_kernel_is_timed(session: RunSession, loadable: Make) -> None:
    right = session.add(loadable("right"))
    failure, error = session.verify(right)
    assert failure is None
    assert error <= 1.0
    blocks, failures = session.time([right], 3)
    assert not failures
    assert [block.round for block in blocks] == [0, 1, 2]
    assert all(sample > 0 for block in blocks for sample in block.samples_ns)
    assert all(len(block.sentinel_ns) == 2 for block in blocks)
    assert session.restarts == 0


def test_what_a_kernel_writes_has_a_digest(session: RunSession, loadable: Make) -> None:
    right, aligned, crash = (session.add(loadable(n)) for n in ("right", "aligned", "segfault"))
    assert session.output_digest(right) == "", "it was not checked"
    for kernel in (right, aligned):
        assert session.verify(kernel)[0] is None
    digest = session.output_digest(right)
    assert len(digest) == 64
    assert session.output_digest(right) == session.output_digest(aligned) == digest
    assert session.verify(crash)[0] is not None
    assert session.output_digest(crash) == ""


def test_a_kernel_that_needs_aligned_arrays_is_found_out(
    session: RunSession, loadable: Make
) -> None:
    right, picky = session.add(loadable("right")), session.add(loadable("aligned"))
    assert session.verify(right, unaligned=True)[0] is None
    assert session.verify(picky)[0] is None
    failure, _ = session.verify(picky, unaligned=True)
    assert failure is not None
    assert (failure.kernel, failure.status) == (picky, Status.CRASH)


@pytest.mark.parametrize(
    ("behaviour", "status", "reason"),
    [
        ("wrong", Status.WRONG, "element"),
        ("input", Status.WRONG, "changed its input x"),
        ("before", Status.WRONG, "wrote outside of out"),
        ("behind", Status.WRONG, "wrote outside of out"),
        ("far", Status.CRASH, "SIGSEGV"),
        ("segfault", Status.CRASH, "SIGSEGV"),
        ("trap", Status.CRASH, "SIGILL"),
        ("spin", Status.TIMEOUT, "no answer within 0.6 s"),
    ],
)
def test_each_misdeed_has_its_status_and_a_reason(
    session: RunSession, loadable: Make, behaviour: str, status: Status, reason: str
) -> None:
    bad = session.add(loadable(behaviour))
    failure, _ = session.verify(bad)
    assert failure is not None
    assert (failure.kernel, failure.status) == (bad, status)
    assert reason in failure.reason
    # Memory that was written at random is not used again; a wrong number does no harm.
    assert session.restarts == (behaviour not in ("wrong", "input"))
    right = session.add(loadable("right"))
    assert session.verify(right)[0] is None, "the next kernel is judged by its own deeds"
    assert session.time([right], 1)[0]


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [("segfault_later", Status.CRASH), ("spin_later", Status.TIMEOUT)],
)
def test_blame_falls_on_the_guilty_among_many(
    session: RunSession, loadable: Make, behaviour: str, status: Status
) -> None:
    kernels = [session.add(loadable(name)) for name in ("right", behaviour, "slow")]
    guilty = kernels[1]
    assert all(session.verify(kernel)[0] is None for kernel in kernels)
    blocks, failures = session.time(kernels, 2)
    assert [(f.kernel, f.status) for f in failures] == [(guilty, status)]
    assert {block.kernel for block in blocks} == {kernels[0], kernels[2]}
    assert session.restarts == 1
    again, repeated = session.time(kernels, 1)
    assert [f.kernel for f in repeated] == [guilty], "what failed once is not run again"
    assert len(again) == 2
    assert session.restarts == 1


def test_code_that_this_cpu_cannot_run_is_refused_before_it_runs(
    session: RunSession, loadable: Make
) -> None:
    right = loadable("right")
    note = f"{llvm.NOTE}{cpu.detect().level}".encode()
    assert note in right.data
    data = right.data.replace(note, f"{llvm.NOTE}x86-64-v9".encode().ljust(len(note), b"\0"))
    bad = session.add(replace(right, data=data, digest=hashlib.sha256(data).hexdigest()))
    failure, _ = session.verify(bad)
    assert failure is not None
    assert "machine code for x86-64-v9 does not run here: this CPU has" in failure.reason
    assert session.restarts == 0


def test_two_guilty_ones_cost_two_workers(session: RunSession, loadable: Make) -> None:
    names = ("segfault_later", "right", "spin_later")
    kernels = [session.add(loadable(name)) for name in names]
    for kernel in kernels:
        session.verify(kernel)
    blocks, failures = session.time(kernels, 1)
    assert {f.kernel for f in failures} == {kernels[0], kernels[2]}
    assert {block.kernel for block in blocks} == {kernels[1]}
    assert session.restarts == 2


def test_a_worker_that_somebody_kills_blames_nobody(session: RunSession, loadable: Make) -> None:
    right = session.add(loadable("right"))
    assert session.verify(right)[0] is None
    os.kill(session.pid, signal.SIGKILL)
    blocks, failures = session.time([right], 2)
    assert len(blocks) == 2
    assert not failures
    os.kill(session.pid, signal.SIGKILL)
    session.unload(right)
    os.kill(session.pid, signal.SIGKILL)
    session.prepare(parse("rogue:61"))
    assert session.measure_peaks()["flops_per_s"]
    assert session.restarts == 3


def test_a_stopped_worker_is_a_hang_and_is_replaced(session: RunSession, loadable: Make) -> None:
    right = session.add(loadable("right"))
    assert session.verify(right)[0] is None
    stopped = session.pid
    os.kill(stopped, signal.SIGSTOP)
    blocks, failures = session.time([right], 1)
    assert blocks
    assert not failures, "nothing had been launched"
    assert session.pid != stopped


def test_code_that_does_not_match_its_digest_is_not_loaded(
    session: RunSession, loadable: Make
) -> None:
    forged = session.add(replace(loadable("right"), digest="0" * 64))
    foreign = session.add(replace(loadable("right"), abi="other-1"))
    broken = session.add(replace(loadable("right"), symbol="nothing_of_this_name"))
    for kernel, reason in ((forged, "digest"), (foreign, "other-1"), (broken, "nothing_of_this")):
        failure, _ = session.verify(kernel)
        assert failure is not None
        assert (failure.kernel, failure.status) == (kernel, Status.ERROR)
        assert reason in failure.reason


def test_an_interrupted_exchange_does_not_mix_up_answers(
    session: RunSession, loadable: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = session.add(loadable("right")), session.add(loadable("wrong"))
    assert session.verify(right)[0] is None
    receive = type(session._worker).receive

    def interrupted(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(type(session._worker), "receive", receive)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(session._worker), "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.verify(right)
    failure, _ = session.verify(wrong)
    assert failure is not None
    assert failure.status is Status.WRONG


def test_a_problem_that_cannot_be_prepared_is_an_error(session: RunSession, rogue: Problem) -> None:
    with pytest.raises(WorkerError, match=r"cannot prepare .*unknown operation"):
        session.prepare(replace(rogue, operation="unheard_of"))


def test_a_session_leaves_nothing_behind(
    rogue: Problem, loadable: Make, scratch: Path, children: Callable[[], set[int]]
) -> None:
    with RunSession(TimingProtocol(), ()) as session:
        session.prepare(rogue)
        session.verify(session.add(loadable("segfault")))
        assert len(children()) == 1
        assert not list(scratch.iterdir())
    assert not children()
    assert not list(scratch.iterdir())
