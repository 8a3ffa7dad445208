"""Evaluators pass the kit for users' own evaluators; the kit finds errors in others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from skipjack.core import Candidate, Objective, Status, TimingProtocol, Trial
from skipjack.execute import Block, Failure
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.solvers import only_solvers
from skipjack.testing.evaluators import EvaluatorConformance, SubmissionConformance
from skipjack.testing.fake_tuning import FAKE_DEVICE, FakeContext, FakeSolver, MemoryBank, tiles
from skipjack.testing.sessions import Behaviour, FakeCalls, NullSession
from skipjack.trace import Tracer
from skipjack.tuning.calls import CallContext, CallEvaluator
from skipjack.tuning.study import (
    CandidateEvaluator,
    CandidateTrial,
    Evaluator,
    LedgerBuffer,
    Limits,
    LoadedCandidate,
    RoundBuilder,
    RoundTimer,
)

PROBLEM = parse("add:64")


@pytest.fixture(autouse=True)
def fake_solver() -> Iterator[None]:
    with only_solvers(FakeSolver("fake")):
        yield


def evaluator_in(
    context: FakeContext,
    kind: type[CandidateEvaluator],
    buffer: LedgerBuffer | None = None,
    *,
    prune_slow: bool = False,
) -> CandidateEvaluator:
    buffer = buffer or LedgerBuffer(context.ledger, context.tracer)
    context.pool.size = 3
    made = kind(context, buffer, PROBLEM, Objective(), Limits(), prune_slow=prune_slow)
    made.add_solver(FakeSolver("fake"), tiles())
    made.prepare()
    return made


class TestKernels(EvaluatorConformance):
    fails_at = ("build", "check", "check_unaligned", "run")

    def create(self, behaviour: Behaviour) -> Evaluator:
        return evaluator_in(FakeContext(behaviour), CandidateEvaluator)


class TestKernelsOfAFind(TestKernels):
    def create(self, behaviour: Behaviour) -> Evaluator:
        return evaluator_in(FakeContext(behaviour), CandidateEvaluator, prune_slow=True)


class TestKernelsThatWereBuiltBefore(TestKernels):
    """As at the second place of a fleet: what fails to build does not get there."""

    fails_at = ("check", "check_unaligned", "run")

    def create(self, behaviour: Behaviour) -> Evaluator:
        context = FakeContext(behaviour)
        buffer = LedgerBuffer(context.ledger, context.tracer)
        builder = evaluator_in(context, RoundBuilder, buffer)
        for candidate in self.candidates(8):
            builder.submit(candidate)
        while builder.pending:
            builder.collect(0.0)
        buffer.flush()
        return evaluator_in(context, RoundTimer)


class TestARoundOfBuilds(SubmissionConformance):
    fails_at = ("build",)
    tells_successes = False

    def create(self, behaviour: Behaviour) -> Evaluator:
        return evaluator_in(FakeContext(behaviour), RoundBuilder)


class TestCalls(EvaluatorConformance):
    def create(self, behaviour: Behaviour) -> Evaluator:
        session = NullSession({}, np.random.default_rng(0), 0.002, behaviour=behaviour)
        ledger = Ledger.in_memory()
        context = CallContext(
            FakeCalls(session), FAKE_DEVICE, TimingProtocol(), ledger, MemoryBank()
        )
        return CallEvaluator(context, LedgerBuffer(ledger, Tracer()), Limits(), version=1)


class _Idle(CandidateEvaluator):
    ahead = 0  # type: ignore[assignment]


class _Forgetful(CandidateEvaluator):
    def submit(self, candidate: Candidate) -> None:
        if candidate.config["tile"] != 3:
            super().submit(candidate)


class _Losing(CandidateEvaluator):
    def collect(self, wait_s: float) -> list[CandidateTrial]:
        return super().collect(wait_s)[1:]


class _Waiting(CandidateEvaluator):
    def collect(self, wait_s: float) -> list[CandidateTrial]:
        return []


class _Repeating(CandidateEvaluator):
    def collect(self, wait_s: float) -> list[CandidateTrial]:
        told = super().collect(wait_s)
        return told[:1] * len(told)


class _Confusing(CandidateEvaluator):
    def collect(self, wait_s: float) -> list[CandidateTrial]:
        return [(replace(one, solver="other"), trial) for one, trial in super().collect(wait_s)]


class _Swapping(CandidateEvaluator):
    def collect(self, wait_s: float) -> list[CandidateTrial]:
        told = super().collect(wait_s)
        return list(
            zip([one for one, _ in told], [trial for _, trial in reversed(told)], strict=True)
        )


class _TakesOnce(CandidateEvaluator):
    def submit(self, candidate: Candidate) -> None:
        if candidate.key not in self.loaded:
            super().submit(candidate)


class _Stubborn(CandidateEvaluator):
    def withdraw(self) -> None:
        """Nothing."""


class _Late(CandidateEvaluator):
    withdrawn = False

    @property
    def pending(self) -> int:
        return 0 if self.withdrawn else super().pending

    def withdraw(self) -> None:
        self.withdrawn = True


class _Raising(CandidateEvaluator):
    def _failed(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        raise RuntimeError(reason)


class _Silent(CandidateEvaluator):
    def _failed(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        return super()._failed(candidate, status, "")


class _Rosy(CandidateEvaluator):
    def _failed(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        return replace(super()._failed(candidate, status, reason), value=1e9)


class _Glossing(CandidateEvaluator):
    def _failed(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        return Trial(candidate.config, value=1e9)


class _Valueless(CandidateEvaluator):
    def collect(self, wait_s: float) -> list[CandidateTrial]:
        return [(one, replace(trial, value=None)) for one, trial in super().collect(wait_s)]


class _Backwards(CandidateEvaluator):
    def collect(self, wait_s: float) -> list[CandidateTrial]:
        return [(c, replace(t, value=1e6 / (t.value or 1))) for c, t in super().collect(wait_s)]


class _Hasty(CandidateEvaluator):
    pace_ns = 10.0  # type: ignore[assignment]


class _Generous(CandidateEvaluator):
    def finalists(
        self, count: int, solver: str | None = None, but: Candidate | None = None
    ) -> list[LoadedCandidate]:
        return super().finalists(99, solver, but)


class _Unsorted(CandidateEvaluator):
    def finalists(
        self, count: int, solver: str | None = None, but: Candidate | None = None
    ) -> list[LoadedCandidate]:
        return super().finalists(count, solver, but)[::-1]


class _KeepsAll(CandidateEvaluator):
    def finalists(
        self, count: int, solver: str | None = None, but: Candidate | None = None
    ) -> list[LoadedCandidate]:
        return super().finalists(count, solver)


class _Aligned(CandidateEvaluator):
    def runs_unaligned(self, loaded: LoadedCandidate) -> bool:
        return True


class _Timing(CandidateEvaluator):
    """Times rightly in the search; what others have timed is changed by a subclass."""

    searching = False

    def collect(self, wait_s: float) -> list[CandidateTrial]:
        self.searching = True
        told = super().collect(wait_s)
        self.searching = False
        return told

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        timed, failures = super().time(kernels, blocks)
        return (timed, failures) if self.searching else (self.changed(timed), failures)

    def changed(self, timed: list[Block]) -> list[Block]:
        return timed


class _Omitting(_Timing):
    def changed(self, timed: list[Block]) -> list[Block]:
        return timed[1:]


class _OneByOne(_Timing):
    def changed(self, timed: list[Block]) -> list[Block]:
        return sorted(timed, key=lambda block: block.kernel)


class _Levelling(_Timing):
    def changed(self, timed: list[Block]) -> list[Block]:
        return [replace(block, samples_ns=timed[0].samples_ns) for block in timed]


class _Unmarking(_Timing):
    def changed(self, timed: list[Block]) -> list[Block]:
        return [replace(block, disturbed=False) for block in timed]


class _Empty(_Timing):
    def changed(self, timed: list[Block]) -> list[Block]:
        return [replace(block, samples_ns=()) for block in timed]


class _Immortal(_Timing):
    def _drop(self, loaded: LoadedCandidate, status: Status, reason: str) -> None:
        """It may lead again."""


class _Patient(_Timing):
    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        return super().time(kernels, blocks)[0], []


class _Fragile(_Timing):
    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        timed, failures = super().time(kernels, blocks)
        if failures:
            raise RuntimeError(failures[0].reason)
        return timed, failures


class _Nervous(CandidateEvaluator):
    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        timed, failures = super().time(kernels, blocks)
        noisy = {block.kernel for block in timed if block.disturbed}
        return [block for block in timed if block.kernel not in noisy], failures


class _Sweeping(CandidateEvaluator):
    def withdraw(self) -> None:
        super().withdraw()
        self.loaded.clear()


@pytest.mark.parametrize(
    ("broken", "test", "said"),
    [
        (_Idle, "knows_nothing_at_first", "ahead is 0: nothing would ever be submitted"),
        (_Forgetful, "each_candidate_comes_back_once", "pending went from 2 to 2"),
        (_Losing, "each_candidate_comes_back_once", "collect returned 1 of 8, and pending is 6"),
        (_Losing, "more_may_be_submitted_before_all_came_back", "collect returned|never returned"),
        (_Waiting, "each_candidate_comes_back_once", "8 candidates are still pending after 1000"),
        (_Repeating, "each_candidate_comes_back_once", "was returned . times instead of once"),
        (_Confusing, "each_candidate_comes_back_once", "other.* was returned but not submitted"),
        (_Swapping, "each_candidate_comes_back_once", "was returned with a trial of"),
        (_Valueless, "each_candidate_comes_back_once", "has the status ok and the value None"),
        (_TakesOnce, "a_candidate_that_is_submitted_again_comes_back_again", "from 0 to 0"),
        (_Stubborn, "what_was_withdrawn_does_not_come_back", "pending is 4 after withdraw"),
        (_Late, "what_was_withdrawn_does_not_come_back", "returned .* after withdraw"),
        (_Raising, "a_candidate_that_fails_is_a_trial_with_a_reason", "not an exception"),
        (_Silent, "a_candidate_that_fails_is_a_trial_with_a_reason", "build_error and no reason"),
        (_Rosy, "a_candidate_that_fails_is_a_trial_with_a_reason", "failed and has the value"),
        (_Glossing, "a_candidate_that_fails_is_a_trial_with_a_reason", "has the status ok"),
        (_Raising, "all_may_fail", "collect raised RuntimeError"),
        (_Hasty, "nothing_leads_at_first", "pace_ns is 10 before anything was timed"),
        (_Hasty, "nothing_leads_where_all_failed", "pace_ns is 10 although all candidates failed"),
        (_Backwards, "values_are_in_the_order_of_the_costs", "have the values"),
        (_Hasty, "says_what_the_fastest_takes", "pace_ns is 10 ns, but the fastest takes 1000 ns"),
        (_Generous, "finalists_are_the_fastest_and_best_first", r"finalists\(1\) returned 3"),
        (_Unsorted, "finalists_are_the_fastest_and_best_first", "not the fastest, best first"),
        (_KeepsAll, "finalists_are_the_fastest_and_best_first", r"finalists\(but=.* returned that"),
        (_Aligned, "one_that_may_not_win_is_no_finalist", "is wrong on unaligned arrays"),
        (_Omitting, "times_some_side_by_side", "returned 0 blocks of kernel .* in round 0 of 1"),
        (_OneByOne, "times_some_side_by_side", "kernels are not timed in turns"),
        (_Empty, "times_some_side_by_side", r"has the samples \(\)"),
        (_Levelling, "times_some_side_by_side", "blocks state .* ns for a kernel of 2000 ns"),
        (_Levelling, "the_faster_of_two_is_confirmed", "is not confirmed as faster"),
        (_Sweeping, "what_was_timed_may_win_after_the_rest_was_withdrawn", "no finalists although"),
        (_Immortal, "one_that_stops_working_is_out_and_the_others_go_on", "it failed, or was not"),
        (_Patient, "one_that_stops_working_is_out_and_the_others_go_on", "time returned 0 blocks"),
        (_Fragile, "one_that_stops_working_is_out_and_the_others_go_on", "time raised"),
        (_Unmarking, "disturbed_rounds_are_marked_and_put_nobody_out", "is not marked as"),
        (
            _Nervous,
            "disturbed_rounds_are_marked_and_put_nobody_out",
            "timed and is not a finalist",
        ),
    ],
)
def test_the_kit_tells_what_is_wrong(
    broken: type[CandidateEvaluator], test: str, said: str
) -> None:
    class Kit(TestKernels):
        def create(self, behaviour: Behaviour) -> Evaluator:
            return evaluator_in(FakeContext(behaviour), broken)

    with pytest.raises(AssertionError, match=said):
        getattr(Kit(), f"test_{test}")()
