"""Conformance kits for evaluators of the study engine. In a test file of yours::

    class TestMyEvaluator(EvaluatorConformance):
        def create(self, behaviour):
            return MyEvaluator(...)

`behaviour(solver, config)` returns the `FakeKernel` of a candidate: the cost of a call, and the
stages at which it fails. An evaluator of kernels runs in a `FakeContext` with that behaviour; an
evaluator of commands runs a script that takes that long and exits accordingly.

`EvaluatorConformance` checks the whole of `skipjack.tuning.Evaluator`. `SubmissionConformance`
checks submitting and collecting alone, for an evaluator that times nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isfinite
from typing import TypeVar

from skipjack.core import Candidate, Config, Status, Trial
from skipjack.execute import Block, Failure, confirm
from skipjack.operations import parse
from skipjack.testing.sessions import FakeKernel
from skipjack.tuning.study import Evaluator, LoadedCandidate

T = TypeVar("T")
_Returned = tuple[Candidate, Trial]
_Timed = tuple[Sequence[Block], Sequence[Failure]]
CandidateBehaviour = Callable[[str, Config], FakeKernel]

_FAILURES = {
    "build": FakeKernel(inf, build=Status.BUILD_ERROR),
    "check": FakeKernel(inf, check=Status.WRONG),
    "check_unaligned": FakeKernel(inf, check_unaligned=Status.WRONG),
    "run": FakeKernel(inf, run=Status.CRASH),
}
"""Candidates that fail at a stage; tests fill in their costs."""
_LASTS_ROUNDS, _MOST_ROUNDS = 60, 400


class SubmissionConformance:
    """The contract of submitting and collecting. Use it like `EvaluatorConformance`."""

    solver = "fake"
    problem = "add:64"
    """The problem of the candidates; see `candidates`."""
    fastest_ns = 1000.0
    """The cost of the fastest candidate; increase it if calls are real."""
    fails_at: Sequence[str] = ("build", "check", "run")
    """Stages of `FakeKernel` at which a candidate can fail, at least one."""
    tells_successes = True
    """Whether candidates that do not fail are returned, too."""
    wait_s = 0.05
    most_collects = 1000
    """After this many calls of `collect`, candidates that were not returned are missing."""

    def create(self, behaviour: CandidateBehaviour) -> Evaluator:
        """A new evaluator whose candidates have this behaviour."""
        raise NotImplementedError("supply create(self, behaviour) in your subclass")

    def candidates(self, count: int) -> list[Candidate]:
        """`count` different candidates, at most eight; override it for configs of another space."""
        problem = parse(self.problem)
        return [Candidate(problem, self.solver, Config(tile=n + 1)) for n in range(count)]

    def test_knows_nothing_at_first(self) -> None:
        evaluator, _ = self._made([self._costing(1)])
        assert evaluator.pending == 0, "pending is not 0 before anything was submitted"
        assert evaluator.ahead >= 1, f"ahead is {evaluator.ahead}: nothing would ever be submitted"
        returned = self._calling("collect", lambda: evaluator.collect(0.0))
        assert list(returned) == [], "collect returned trials before anything was submitted"

    def test_each_candidate_comes_back_once(self) -> None:
        evaluator, candidates = self._made([self._costing(1 + n) for n in range(8)])
        self._submit(evaluator, candidates)
        self._expect(candidates, self._collected(evaluator))

    def test_more_may_be_submitted_before_all_came_back(self) -> None:
        evaluator, candidates = self._made([self._costing(1 + n) for n in range(8)])
        self._submit(evaluator, candidates[:4])
        returned = list(self._calling("collect", lambda: evaluator.collect(self.wait_s)))
        self._submit(evaluator, candidates[4:])
        self._expect(candidates, returned + self._collected(evaluator))

    def test_a_candidate_that_is_submitted_again_comes_back_again(self) -> None:
        evaluator, candidates = self._made([self._costing(1), self._failing(self.fails_at[0])])
        for _ in range(2):
            self._submit(evaluator, candidates)
            self._expect(candidates, self._collected(evaluator), failing=candidates[1:])

    def test_what_was_withdrawn_does_not_come_back(self) -> None:
        evaluator, candidates = self._made([self._costing(1 + n) for n in range(6)])
        self._submit(evaluator, candidates[:4])
        self._calling("withdraw", evaluator.withdraw)
        assert evaluator.pending == 0, (
            f"pending is {evaluator.pending} after withdraw, which must forget all candidates"
        )
        late = self._calling("collect", lambda: evaluator.collect(0.0))
        assert not late, f"collect returned {late[0][0].key} after withdraw"
        self._submit(evaluator, candidates[3:])
        self._expect(candidates[3:], self._collected(evaluator))

    def test_a_candidate_that_fails_is_a_trial_with_a_reason(self) -> None:
        for stage in self.fails_at:
            if stage == "check_unaligned":
                continue
            kernels = [self._costing(1), self._failing(stage), self._costing(2)]
            evaluator, candidates = self._made(kernels)
            self._submit(evaluator, candidates)
            returned = self._collected(evaluator)
            self._expect(candidates, returned, failing=[candidates[1]])

    def test_all_may_fail(self) -> None:
        evaluator, candidates = self._made([self._failing(self.fails_at[0])] * 4)
        self._submit(evaluator, candidates)
        self._expect(candidates, self._collected(evaluator), failing=candidates)

    # helpers of the tests

    def _costing(self, times: float) -> FakeKernel:
        return FakeKernel(self.fastest_ns * times)

    def _failing(self, stage: str, times: float = 1.0) -> FakeKernel:
        return replace(_FAILURES[stage], time_ns=self.fastest_ns * times)

    def _made(self, kernels: Sequence[FakeKernel]) -> tuple[Evaluator, list[Candidate]]:
        """An evaluator, and candidates with these kernels; all others have the default cost."""
        candidates = self.candidates(len(kernels))
        known = dict(zip((one.config for one in candidates), kernels, strict=True))
        usual = FakeKernel(self.fastest_ns)
        return self.create(lambda solver, config: known.get(config, usual)), candidates

    def _calling(self, verb: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:
            raise AssertionError(
                f"{verb} raised {error!r}: an error of a candidate must be a trial or a failure "
                "with a status and a reason, not an exception"
            ) from error

    def _submit(self, evaluator: Evaluator, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            before = evaluator.pending
            self._calling("submit", lambda one=candidate: evaluator.submit(one))  # type: ignore[misc]
            assert evaluator.pending == before + 1, (
                f"pending went from {before} to {evaluator.pending} when one was submitted"
            )

    def _collected(self, evaluator: Evaluator) -> list[_Returned]:
        """Collect all pending candidates."""
        returned: list[_Returned] = []
        for _ in range(self.most_collects):
            out = evaluator.pending
            if not out:
                return returned
            new = self._calling("collect", lambda: evaluator.collect(self.wait_s))
            assert not self.tells_successes or evaluator.pending == out - len(new), (
                f"collect returned {len(new)} of {out}, and pending is {evaluator.pending}"
            )
            returned += new
        raise AssertionError(
            f"{evaluator.pending} candidates are still pending after {self.most_collects} collects"
        )

    def _expect(
        self,
        candidates: Sequence[Candidate],
        returned: Sequence[_Returned],
        failing: Sequence[Candidate] = (),
    ) -> None:
        """Check that each was returned once, and failures with a status and a reason."""
        count = Counter(candidate for candidate, _ in returned)
        for candidate in count.keys() - set(candidates):
            raise AssertionError(f"{candidate.key} was returned but not submitted")
        for candidate, times in count.items():
            assert times == 1, f"{candidate.key} was returned {times} times instead of once"
        for candidate in failing if not self.tells_successes else candidates:
            assert candidate in count, f"{candidate.key} was submitted and never returned"
        for candidate, trial in returned:
            _check_trial(candidate, trial, fails=candidate in failing)


class EvaluatorConformance(SubmissionConformance):
    """The contract of evaluators.

    Subclass it, supply `create`, and let pytest collect it.
    """

    tolerance = 1.5
    """The factor by which reported times may differ from the costs of candidates."""
    notices_disturbance = True
    """Whether it marks blocks during which something else ran."""

    def test_nothing_leads_at_first(self) -> None:
        evaluator, _ = self._made([self._costing(1)])
        self._expect_nobody(evaluator, "before anything was timed")
        assert evaluator.confirm_pairs >= 1, (
            f"confirm_pairs is {evaluator.confirm_pairs}: it must be at least 1"
        )

    def test_nothing_leads_where_all_failed(self) -> None:
        evaluator, candidates = self._made([self._failing(self.fails_at[0])] * 3)
        self._evaluate(evaluator, candidates)
        self._expect_nobody(evaluator, "although all candidates failed")

    def test_values_are_in_the_order_of_the_costs(self) -> None:
        evaluator, candidates = self._made([self._costing(n) for n in (4, 1, 2)])
        returned = dict(self._evaluate(evaluator, candidates))
        slow, fast, between = (returned[one].value or 0.0 for one in candidates)
        assert fast < between < slow, (
            "candidates that cost 1, 2 and 4 units have the values "
            f"{fast:g}, {between:g} and {slow:g}"
        )

    def test_says_what_the_fastest_takes(self) -> None:
        evaluator, candidates = self._made([self._costing(n) for n in (4, 1, 2)])
        self._evaluate(evaluator, candidates)
        times = evaluator.leader_times_ns()
        assert times, "leader_times_ns is empty although candidates were timed"
        for what, found in (("pace_ns", evaluator.pace_ns), ("leader_times_ns", min(times))):
            assert self._near(found, self.fastest_ns), (
                f"{what} is {found:g} ns, but the fastest takes {self.fastest_ns:g} ns"
            )

    def test_finalists_are_the_fastest_and_best_first(self) -> None:
        kernels = [self._costing(4), self._failing(self.fails_at[0]), self._costing(1)]
        evaluator, candidates = self._made([*kernels, self._costing(2)])
        self._evaluate(evaluator, candidates)
        ranked = [candidates[2], candidates[3], candidates[0]]
        for count in (1, 2, 5):
            self._expect_finalists(evaluator.finalists(count), ranked, count)
        others = evaluator.finalists(5, but=ranked[0])
        assert ranked[0] not in [one.candidate for one in others], (
            f"finalists(but={ranked[0].key}) returned that candidate"
        )
        self._expect_finalists(others, ranked[1:], 5)

    def test_one_that_may_not_win_is_no_finalist(self) -> None:
        if "check_unaligned" not in self.fails_at:
            return
        evaluator, candidates = self._made([self._failing("check_unaligned"), self._costing(2)])
        self._evaluate(evaluator, candidates)
        found = [one.candidate for one in evaluator.finalists(5)]
        assert found == candidates[1:], (
            f"{candidates[0].key} is a finalist although it is wrong on unaligned arrays"
        )

    def test_times_some_side_by_side(self) -> None:
        evaluator, kernels = self._timed([1, 2])
        for rounds in (1, 3):
            blocks, failures = self._time(evaluator, kernels, rounds)
            assert not failures, (
                f"time returned a failure of a working kernel: {failures[0].reason}"
            )
            self._expect_blocks(blocks, kernels, rounds)
        medians = [min(one.time_ns for one in blocks if one.kernel == k) for k in kernels]
        for found, wanted in zip(medians, (self.fastest_ns, 2 * self.fastest_ns), strict=True):
            assert self._near(found, wanted), (
                f"blocks state {found:g} ns for a kernel of {wanted:g} ns"
            )

    def test_the_faster_of_two_is_confirmed(self) -> None:
        evaluator, (fast, slow) = self._timed([1, 2])
        test = self._calling(
            "time", lambda: confirm(evaluator, fast, [slow], evaluator.confirm_pairs)
        )
        assert test.confirmed(slow), (
            "a kernel that takes half the time is not confirmed as faster by the blocks: "
            f"{test.gains.get(slow)}"
        )
        assert not test.beaten_by(slow), "a kernel that takes twice the time is confirmed as faster"

    def test_what_was_timed_may_win_after_the_rest_was_withdrawn(self) -> None:
        evaluator, candidates = self._made([self._costing(n) for n in (1, 2, 3, 4)])
        self._evaluate(evaluator, candidates[:2])
        self._submit(evaluator, candidates[2:])
        self._calling("withdraw", evaluator.withdraw)
        found = evaluator.finalists(5)
        self._expect_finalists(found, candidates[:2], 5)
        blocks, _ = self._time(evaluator, [one.kernel for one in found], 2)
        self._expect_blocks(blocks, [one.kernel for one in found], 2)

    def test_one_that_stops_working_is_out_and_the_others_go_on(self) -> None:
        if "run" not in self.fails_at:
            return
        doomed = replace(self._costing(1), lasts_rounds=_LASTS_ROUNDS)
        evaluator, candidates = self._made([self._costing(2), doomed])
        self._evaluate(evaluator, candidates)
        lasting, mortal = self._numbers(evaluator, candidates)
        for _ in range(_MOST_ROUNDS):
            blocks, failures = self._time(evaluator, [lasting, mortal], 1)
            if failures:
                break
            self._expect_blocks(blocks, [lasting, mortal], 1)
        assert [one.kernel for one in failures] == [mortal], (
            f"time returned no failure of {candidates[1].key}, which stopped working"
        )
        assert failures[0].status.failed and failures[0].reason, (
            "a failure of time has no failed status, or no reason"
        )
        self._expect_blocks(blocks, [lasting], 1)
        self._expect_finalists(evaluator.finalists(5), candidates[:1], 5)

    def test_disturbed_rounds_are_marked_and_put_nobody_out(self) -> None:
        if not self.notices_disturbance:
            return
        restless = [replace(self._costing(n), disturbance=1.0) for n in (1, 2)]
        evaluator, candidates = self._made(restless)
        self._evaluate(evaluator, candidates)
        kernels = self._numbers(evaluator, candidates)
        blocks, failures = self._time(evaluator, kernels, 2)
        assert not failures, f"a disturbed round is a failure: {failures[0].reason}"
        self._expect_blocks(blocks, kernels, 2)
        assert all(one.disturbed for one in blocks), "a disturbed block is not marked as disturbed"

    # helpers of the tests

    def _near(self, found: float, wanted: float) -> bool:
        return wanted / self.tolerance <= found <= wanted * self.tolerance

    def _evaluate(self, evaluator: Evaluator, candidates: Sequence[Candidate]) -> list[_Returned]:
        self._submit(evaluator, candidates)
        return self._collected(evaluator)

    def _timed(self, costs: Sequence[float]) -> tuple[Evaluator, list[int]]:
        """An evaluator, and the numbers of candidates with these costs, in order."""
        evaluator, candidates = self._made([self._costing(one) for one in costs])
        self._evaluate(evaluator, candidates)
        return evaluator, self._numbers(evaluator, candidates)

    def _numbers(self, evaluator: Evaluator, candidates: Sequence[Candidate]) -> list[int]:
        """The numbers that `time` takes. If calls are slow, there may be one finalist at a time."""
        found = {
            loaded.candidate: loaded.kernel
            for other in (None, *candidates)
            for loaded in evaluator.finalists(len(candidates), but=other)
        }
        for candidate in candidates:
            assert candidate in found, f"{candidate.key} was timed and is not a finalist"
        return [found[candidate] for candidate in candidates]

    def _time(self, evaluator: Evaluator, kernels: Sequence[int], rounds: int) -> _Timed:
        return self._calling("time", lambda: evaluator.time(kernels, rounds))

    def _expect_nobody(self, evaluator: Evaluator, when: str) -> None:
        assert evaluator.pace_ns == inf, f"pace_ns is {evaluator.pace_ns:g} {when}"
        assert not evaluator.leader_times_ns(), f"leader_times_ns is not empty {when}"
        assert not evaluator.finalists(3), f"there are finalists {when}"

    def _expect_finalists(
        self, found: Sequence[LoadedCandidate], ranked: Sequence[Candidate], most: int
    ) -> None:
        """Check that `found` are the best of `ranked`, at most `most` of them."""
        assert found, "there are no finalists although candidates were timed"
        assert len(found) <= most, f"finalists({most}) returned {len(found)}"
        names = [one.candidate for one in found]
        for name in names:
            assert name in ranked, f"{name.key} is a finalist: it failed, or was not timed"
        assert names == list(ranked[: len(names)]), "finalists are not the fastest, best first"
        assert len({one.kernel for one in found}) == len(found), (
            "two finalists have the same number"
        )
        for one in found:
            assert 0 < one.time_ns < inf, f"finalist {one.candidate.key} has no time_ns"

    def _expect_blocks(self, blocks: Sequence[Block], kernels: Sequence[int], rounds: int) -> None:
        """Check that there is one block of each kernel in every round, in order."""
        times = Counter((one.round, one.kernel) for one in blocks)
        for number, kernel in ((n, kernel) for n in range(rounds) for kernel in kernels):
            assert times[number, kernel] == 1, (
                f"time returned {times[number, kernel]} blocks of kernel {kernel} in round "
                f"{number} of {rounds} instead of one"
            )
        assert len(blocks) == rounds * len(kernels), "time returned blocks that were not requested"
        order = [one.round for one in blocks]
        assert order == sorted(order), (
            "kernels are not timed in turns: blocks of a round come after those of a later one"
        )
        for one in blocks:
            right = one.samples_ns and all(isfinite(ns) and ns > 0 for ns in one.samples_ns)
            assert right, f"a block has the samples {one.samples_ns}: it needs one or more, above 0"


def _check_trial(candidate: Candidate, trial: Trial, *, fails: bool) -> None:
    key = candidate.key
    assert trial.config == candidate.config, f"{key} was returned with a trial of {trial.config}"
    if fails:
        assert trial.status.failed, f"{key} fails, and its trial has the status ok"
        assert trial.reason, f"{key} failed with status {trial.status} and no reason"
        assert trial.value is None, f"{key} failed and has the value {trial.value}"
        return
    assert not trial.status.failed, f"{key} runs, but its status is {trial.status}: {trial.reason}"
    assert trial.value is not None and isfinite(trial.value), (
        f"{key} has the status ok and the value {trial.value}"
    )
    assert trial.spread >= 0, f"{key} has the spread {trial.spread}"
