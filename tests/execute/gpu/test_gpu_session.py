"""A session on a GPU verifies, times, and survives failures of its kernels."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from skipjack.core import Problem, Status, TimingProtocol, gpu_protocol
from skipjack.errors import WorkerError
from skipjack.execute import Loadable, RunSession
from skipjack.gpu import Fill, Launch, Pointer, Scratch, launch, to_slots
from skipjack.testing.fake_gpu import MEMORY

Make = Callable[..., Loadable]


def test_a_right_kernel_is_verified_and_timed(session: RunSession, loadable: Make) -> None:
    kernel = session.add(loadable(time_ns=5000.0))
    failure, error = session.verify(kernel)
    assert failure is None
    assert 0.0 <= error <= 1.0
    assert len(session.output_digest(kernel)) == 64
    blocks, failures = session.time([kernel], 3)
    assert not failures
    assert [block.round for block in blocks] == [0, 1, 2]
    assert {block.time_ns for block in blocks} == {5000.0}


def test_kernels_are_timed_in_turn_with_a_sentinel_between(
    session: RunSession, loadable: Make
) -> None:
    fast, slow = (session.add(loadable(time_ns=time_ns)) for time_ns in (1000.0, 3e6))
    blocks, _ = session.time([fast, slow], 2)
    assert [block.kernel for block in blocks] == [fast, slow, slow, fast]
    by_kernel = {block.kernel: block for block in blocks}
    assert by_kernel[fast].calls > 1
    assert by_kernel[slow].calls == 1
    assert len(by_kernel[slow].samples_ns) == 1
    assert all(len(block.sentinel_ns) == 2 and min(block.sentinel_ns) > 0 for block in blocks)


@pytest.mark.parametrize(
    ("behaviour", "status", "reason", "restarts"),
    [
        ("wrong", Status.WRONG, "of 1000 elements are wrong, the first at [0]", 0),
        ("forgets", Status.WRONG, "1 of 1000 elements are wrong, the first at [999]", 0),
        ("input", Status.WRONG, "changed its input x", 0),
        ("before", Status.WRONG, "wrote outside of y", 1),
        ("behind", Status.WRONG, "wrote outside of out", 1),
        ("fault", Status.CRASH, "an illegal memory access was encountered", 1),
        ("memory", Status.OUT_OF_MEMORY, "more memory than is free", 0),
        ("refuse", Status.ERROR, "newer driver", 0),
        ("hang", Status.TIMEOUT, "no answer within", 1),
    ],
)
def test_a_rogue_kernel_fails_for_a_reason_and_the_session_goes_on(
    session: RunSession,
    loadable: Make,
    behaviour: str,
    status: Status,
    reason: str,
    restarts: int,
) -> None:
    right, rogue = session.add(loadable()), session.add(loadable(behaviour))
    failure, _ = session.verify(rogue)
    assert failure is not None
    assert failure.kernel == rogue
    assert failure.status is status
    assert reason in failure.reason
    assert session.restarts == restarts
    assert session.verify(right)[0] is None


@pytest.mark.parametrize(
    ("behaviour", "status"), [("fault_later", Status.CRASH), ("hang_later", Status.TIMEOUT)]
)
def test_a_kernel_that_fails_while_it_is_timed_costs_its_own_place(
    session: RunSession, loadable: Make, behaviour: str, status: Status
) -> None:
    right, rogue = session.add(loadable()), session.add(loadable(behaviour))
    assert session.verify(rogue)[0] is None
    blocks, (failure,) = session.time([right, rogue], 2)
    assert (failure.kernel, failure.status) == (rogue, status)
    assert {block.kernel for block in blocks} == {right}
    assert session.restarts == 1


def test_bytes_that_are_not_those_promised_are_not_loaded(
    session: RunSession, loadable: Make
) -> None:
    kernel = session.add(replace(loadable(), digest="0" * 64))
    failure, _ = session.verify(kernel)
    assert failure is not None
    assert "do not match its digest" in failure.reason


def test_another_launch_abi_is_refused(session: RunSession, loadable: Make) -> None:
    kernel = session.add(replace(loadable(), abi="gpu-99"))
    failure, _ = session.verify(kernel)
    assert failure is not None
    assert "launch ABI 'gpu-99' is unknown here" in failure.reason


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (launch("add", (8,), ["x", "y", "out"]), "takes 4 arguments, but its launch plan has 3"),
        (launch("add", (8,), ["x", "y", "z", 8]), "names an unknown tensor 'z'"),
        (launch("sub", (8,), ["x", "y", "out", 8]), "has no kernel 'sub'"),
        (launch("add", (8,), ["x", 7, "out", 8]), "is *fp32, but the launch plan has a i32"),
        (launch("add", (8,), ["x", "y", "out", 0.5]), "is i32, but the launch plan has a f32"),
        (launch("add", (8,), ["x", "y", "out", 2**40]), "is out of range"),
        (
            launch("add", (8,), ["x", Pointer("y", 4), "out", 8]),
            "argument 1 of kernel add was compiled for multiples of 16",
        ),
    ],
)
def test_a_plan_that_does_not_fit_its_kernel_is_refused(
    session: RunSession, loadable: Make, step: Launch, reason: str
) -> None:
    kernel = session.add(replace(loadable(), slots=tuple(to_slots([step]))))
    failure, _ = session.verify(kernel)
    assert failure is not None
    assert failure.status is Status.ERROR
    assert reason in failure.reason


def test_scratch_is_lent_and_filled_before_a_launch(
    session: RunSession, loadable: Make, problem: Problem
) -> None:
    size = 4 * problem.shape[0]
    zeros = Scratch("zeros", size)
    steps = [
        Fill(zeros, size),
        launch("add", (8,), ["x", zeros, "out", problem.shape[0]]),
        launch("add", (8,), ["out", "y", "out", problem.shape[0]]),
    ]
    kernel = session.add(replace(loadable(), slots=tuple(to_slots(steps))))
    assert session.verify(kernel)[0] is None


def test_a_winner_is_checked_on_arrays_of_little_alignment(
    session: RunSession, loadable: Make
) -> None:
    kernel = session.add(loadable())
    assert session.verify(kernel, unaligned=True)[0] is None
    wrong = session.add(loadable("wrong"))
    failure, _ = session.verify(wrong, unaligned=True)
    assert failure is not None
    assert failure.status is Status.WRONG


def test_a_problem_that_does_not_fit_the_memory_cannot_be_prepared(
    session: RunSession, problem: Problem
) -> None:
    with pytest.raises(
        WorkerError, match=r"cannot prepare add:100000000:f32: \d+ bytes are not free"
    ):
        session.prepare(type(problem)("add", (100_000_000,)))
    session.prepare(problem)


def test_peaks_are_those_of_copies(session: RunSession) -> None:
    peaks = session.measure_peaks()
    assert [rate for _, rate in peaks["bytes_per_s"]] == pytest.approx(
        [2 * 100e9] * len(peaks["bytes_per_s"]), rel=0.01
    )


def test_a_gpu_that_is_not_here_is_named() -> None:
    missing = pytest.raises(WorkerError, match="there is no GPU cuda:77 here")
    with RunSession(TimingProtocol(), (), gpu="cuda:77") as session, missing:
        session.measure_peaks()


def test_the_protocol_of_gpus_says_how_it_differs() -> None:
    protocol = gpu_protocol()
    assert protocol.key != TimingProtocol().key
    assert (protocol.caches, protocol.alignment_bytes) == ("rotating", 256)


def test_what_failed_for_want_of_memory_gives_back_what_it_held(
    session: RunSession, loadable: Make, problem: Problem
) -> None:
    size = MEMORY * 2 // 3
    lent = Scratch("lent", size)
    steps = [Fill(lent, 16), launch("add", (8,), ["x", "y", "out", problem.shape[0]])]
    greedy, right = (
        session.add(replace(loadable(behaviour), slots=tuple(to_slots(steps))))
        for behaviour in ("memory", "right")
    )
    failure, _ = session.verify(greedy)
    assert failure is not None
    assert failure.status is Status.OUT_OF_MEMORY
    assert session.verify(right)[0] is None
    assert session.restarts == 0
