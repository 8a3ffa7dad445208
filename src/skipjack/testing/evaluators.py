"""Conformance kits for evaluators of the study engine. In a test file of yours::

from skipjack.testing.evaluators import EvaluatorConformance

class TestMyEvaluator(EvaluatorConformance):
    def create(self, behaviour):
        return MyEvaluator(...)

A candidate behaves as `behaviour(solver, config)` says: a `FakeKernel` has what a call costs, and
the stages at which it fails. An evaluator of kernels runs in a `FakeContext` of that behaviour; one
of commands runs a script that takes as long and exits as it says.

`EvaluatorConformance` checks the whole of `skipjack.tuning.Evaluator`. `SubmissionConformance`
checks submitting and collecting alone, for an evaluator that times nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isfinite
from typing import TypeVar

from skipjack.core.config import Config
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.execute.confirm import confirm
from skipjack.execute.session import Failure
from skipjack.execute.statistics import Block
from skipjack.operations import parse
from skipjack.testing.sessions import FakeKernel
from skipjack.tuning import Evaluator, LoadedCandidate

T = TypeVar("T")
_Told = tuple[Candidate, Trial]
_Timed = tuple[Sequence[Block], Sequence[Failure]]
CandidateBehaviour = Callable[[str, Config], FakeKernel]
"""How a solver's config behaves: a `skipjack.testing.sessions.Behaviour`."""

_FAILURES = {
    "build": FakeKernel(inf, build=Status.BUILD_ERROR),
    "check": FakeKernel(inf, check=Status.WRONG),
    "check_unaligned": FakeKernel(inf, check_unaligned=Status.WRONG),
    "run": FakeKernel(inf, run=Status.CRASH),
}
"""A candidate that fails at a stage; what it costs is filled in."""
_LASTS_ROUNDS, _MOST_ROUNDS = 60, 400


class SubmissionConformance:
    """What submitting and collecting must keep to. Used as `EvaluatorConformance` is."""

    solver = "fake"
    problem = "add:64"
    """Of the candidates; see `candidates`."""
    fastest_ns = 1000.0
    """What the fastest candidate costs; make it longer where calls are real."""
    fails_at: Sequence[str] = ("build", "check", "run")
    """Stages at which a candidate can fail, at least one: those of `FakeKernel`."""
    tells_successes = True
    """Whether those that do not fail come back, too."""
    wait_s = 0.05
    most_collects = 1000
    """After so many, what has not come back is missing."""

    def create(self, behaviour: CandidateBehaviour) -> Evaluator:
        """A new evaluator whose candidates behave like this."""
        raise NotImplementedError("supply create(self, behaviour) in your subclass")

    def candidates(self, count: int) -> list[Candidate]:
        """So many different candidates, at most eight; override it for configs of another space."""
        problem = parse(self.problem)
        return [Candidate(problem, self.solver, Config(tile=n + 1)) for n in range(count)]

    def test_knows_nothing_at_first(self) -> None:
        evaluator, _ = self._made([self._costing(1)])
        assert evaluator.pending == 0, "pending is not 0 before anything was submitted"
        assert evaluator.ahead >= 1, f"ahead is {evaluator.ahead}: nothing would ever be submitted"
        told = self._calling("collect", lambda: evaluator.collect(0.0))
        assert list(told) == [], "collect gave trials before anything was submitted"

    def test_each_candidate_comes_back_once(self) -> None:
        evaluator, candidates = self._made([self._costing(1 + n) for n in range(8)])
        self._submit(evaluator, candidates)
        self._expect(candidates, self._collected(evaluator))

    def test_more_may_be_submitted_before_all_came_back(self) -> None:
        evaluator, candidates = self._made([self._costing(1 + n) for n in range(8)])
        self._submit(evaluator, candidates[:4])
        told = list(self._calling("collect", lambda: evaluator.collect(self.wait_s)))
        self._submit(evaluator, candidates[4:])
        self._expect(candidates, told + self._collected(evaluator))

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
            f"pending is {evaluator.pending} after withdraw: those are forgotten"
        )
        late = self._calling("collect", lambda: evaluator.collect(0.0))
        assert not late, f"{late[0][0].key} came back after withdraw"
        self._submit(evaluator, candidates[3:])
        self._expect(candidates[3:], self._collected(evaluator))

    def test_a_candidate_that_fails_is_a_trial_with_a_reason(self) -> None:
        for stage in self.fails_at:
            if stage == "check_unaligned":
                continue
            kernels = [self._costing(1), self._failing(stage), self._costing(2)]
            evaluator, candidates = self._made(kernels)
            self._submit(evaluator, candidates)
            told = self._collected(evaluator)
            self._expect(candidates, told, failing=[candidates[1]])

    def test_all_may_fail(self) -> None:
        evaluator, candidates = self._made([self._failing(self.fails_at[0])] * 4)
        self._submit(evaluator, candidates)
        self._expect(candidates, self._collected(evaluator), failing=candidates)

    # what tests have in common

    def _costing(self, times: float) -> FakeKernel:
        return FakeKernel(self.fastest_ns * times)

    def _failing(self, stage: str, times: float = 1.0) -> FakeKernel:
        return replace(_FAILURES[stage], time_ns=self.fastest_ns * times)

    def _made(self, kernels: Sequence[FakeKernel]) -> tuple[Evaluator, list[Candidate]]:
        """An evaluator, and candidates that behave like these; all others cost one unit."""
        candidates = self.candidates(len(kernels))
        known = dict(zip((one.config for one in candidates), kernels, strict=True))
        usual = FakeKernel(self.fastest_ns)
        return self.create(lambda solver, config: known.get(config, usual)), candidates

    def _calling(self, verb: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:
            raise AssertionError(
                f"{verb} raised {error!r}: what is wrong with a candidate is a trial or a failure "
                "with a status and a reason, never an exception"
            ) from error

    def _submit(self, evaluator: Evaluator, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            before = evaluator.pending
            self._calling("submit", lambda one=candidate: evaluator.submit(one))  # type: ignore[misc]
            assert evaluator.pending == before + 1, (
                f"pending went from {before} to {evaluator.pending} when one was submitted"
            )

    def _collected(self, evaluator: Evaluator) -> list[_Told]:
        """All that is pending."""
        told: list[_Told] = []
        for _ in range(self.most_collects):
            out = evaluator.pending
            if not out:
                return told
            new = self._calling("collect", lambda: evaluator.collect(self.wait_s))
            assert not self.tells_successes or evaluator.pending == out - len(new), (
                f"collect gave {len(new)} of {out}, and pending says {evaluator.pending}"
            )
            told += new
        raise AssertionError(
            f"{evaluator.pending} candidates are still pending after {self.most_collects} collects"
        )

    def _expect(
        self,
        candidates: Sequence[Candidate],
        told: Sequence[_Told],
        failing: Sequence[Candidate] = (),
    ) -> None:
        """Each came back once, those that fail with a status and a reason."""
        count = Counter(candidate for candidate, _ in told)
        for candidate in count.keys() - set(candidates):
            raise AssertionError(f"{candidate.key} came back and was not submitted")
        for candidate, times in count.items():
            assert times == 1, f"{candidate.key} came back {times} times: each comes back once"
        for candidate in failing if not self.tells_successes else candidates:
            assert candidate in count, f"{candidate.key} was submitted and never came back"
        for candidate, trial in told:
            _check_trial(candidate, trial, fails=candidate in failing)


class EvaluatorConformance(SubmissionConformance):
    """What every evaluator must keep to.

    Subclass it, supply `create`, and let pytest collect it.
    """

    tolerance = 1.5
    """By which factor what it says of times may differ from what candidates cost."""
    notices_disturbance = True
    """Whether its blocks say that something else ran during them."""

    def test_nothing_leads_at_first(self) -> None:
        evaluator, _ = self._made([self._costing(1)])
        self._expect_nobody(evaluator, "before anything was timed")
        assert evaluator.confirm_pairs >= 1, (
            f"confirm_pairs is {evaluator.confirm_pairs}: a winner needs at least one"
        )

    def test_nothing_leads_where_all_failed(self) -> None:
        evaluator, candidates = self._made([self._failing(self.fails_at[0])] * 3)
        self._evaluate(evaluator, candidates)
        self._expect_nobody(evaluator, "although all candidates failed")

    def test_values_are_in_the_order_of_the_costs(self) -> None:
        evaluator, candidates = self._made([self._costing(n) for n in (4, 1, 2)])
        told = dict(self._evaluate(evaluator, candidates))
        slow, fast, between = (told[one].value or 0.0 for one in candidates)
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
                f"{what} says {found:g} ns, the fastest takes {self.fastest_ns:g} ns"
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
            f"finalists(but={ranked[0].key}) gave that candidate"
        )
        self._expect_finalists(others, ranked[1:], 5)

    def test_one_that_may_not_win_is_no_finalist(self) -> None:
        if "check_unaligned" not in self.fails_at:
            return
        evaluator, candidates = self._made([self._failing("check_unaligned"), self._costing(2)])
        self._evaluate(evaluator, candidates)
        found = [one.candidate for one in evaluator.finalists(5)]
        assert found == candidates[1:], (
            f"{candidates[0].key} is a finalist although it is wrong on arrays that are not aligned"
        )

    def test_times_some_side_by_side(self) -> None:
        evaluator, kernels = self._timed([1, 2])
        for rounds in (1, 3):
            blocks, failures = self._time(evaluator, kernels, rounds)
            assert not failures, f"time gave a failure of what runs: {failures[0].reason}"
            self._expect_blocks(blocks, kernels, rounds)
        medians = [min(one.time_ns for one in blocks if one.kernel == k) for k in kernels]
        for found, wanted in zip(medians, (self.fastest_ns, 2 * self.fastest_ns), strict=True):
            assert self._near(found, wanted), f"blocks say {found:g} ns of what takes {wanted:g} ns"

    def test_the_faster_of_two_is_confirmed(self) -> None:
        evaluator, (fast, slow) = self._timed([1, 2])
        test = self._calling(
            "time", lambda: confirm(evaluator, fast, [slow], evaluator.confirm_pairs)
        )
        assert test.confirmed(slow), (
            "what takes half as long is not confirmed as faster from the blocks of time: "
            f"{test.gains.get(slow)}"
        )
        assert not test.beaten_by(slow), "what takes twice as long is confirmed as faster"

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
            f"time gave no failure of {candidates[1].key}, which stopped working"
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

    # what tests have in common

    def _near(self, found: float, wanted: float) -> bool:
        return wanted / self.tolerance <= found <= wanted * self.tolerance

    def _evaluate(self, evaluator: Evaluator, candidates: Sequence[Candidate]) -> list[_Told]:
        self._submit(evaluator, candidates)
        return self._collected(evaluator)

    def _timed(self, costs: Sequence[float]) -> tuple[Evaluator, list[int]]:
        """An evaluator, and the numbers of candidates that cost so many units, in this order."""
        evaluator, candidates = self._made([self._costing(one) for one in costs])
        self._evaluate(evaluator, candidates)
        return evaluator, self._numbers(evaluator, candidates)

    def _numbers(self, evaluator: Evaluator, candidates: Sequence[Candidate]) -> list[int]:
        """By which `time` knows them. Where calls are slow there may be one finalist at a time."""
        found = {
            loaded.candidate: loaded.kernel
            for other in (None, *candidates)
            for loaded in evaluator.finalists(len(candidates), but=other)
        }
        for candidate in candidates:
            assert candidate in found, f"{candidate.key} was timed and is no finalist"
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
        """At most so many of the ranked, best first."""
        assert found, "there are no finalists although candidates were timed"
        assert len(found) <= most, f"finalists({most}) gave {len(found)}"
        names = [one.candidate for one in found]
        for name in names:
            assert name in ranked, f"{name.key} is a finalist: it failed, or was not timed"
        assert names == list(ranked[: len(names)]), "finalists are not the fastest, best first"
        assert len({one.kernel for one in found}) == len(found), "two finalists have one number"
        for one in found:
            assert 0 < one.time_ns < inf, f"finalist {one.candidate.key} has no time_ns"

    def _expect_blocks(self, blocks: Sequence[Block], kernels: Sequence[int], rounds: int) -> None:
        """One of each in every round, round by round."""
        times = Counter((one.round, one.kernel) for one in blocks)
        for number, kernel in ((n, kernel) for n in range(rounds) for kernel in kernels):
            assert times[number, kernel] == 1, (
                f"time gave {times[number, kernel]} blocks of kernel {kernel} in round {number} of "
                f"{rounds}: each has one in every round"
            )
        assert len(blocks) == rounds * len(kernels), "time gave blocks that were not asked for"
        order = [one.round for one in blocks]
        assert order == sorted(order), (
            "kernels are not timed in turns: blocks of a round come after those of a later one"
        )
        for one in blocks:
            right = one.samples_ns and all(isfinite(ns) and ns > 0 for ns in one.samples_ns)
            assert right, f"a block has the samples {one.samples_ns}: give one or more, above 0"


def _check_trial(candidate: Candidate, trial: Trial, *, fails: bool) -> None:
    key = candidate.key
    assert trial.config == candidate.config, f"{key} came back with a trial of {trial.config}"
    if fails:
        assert trial.status.failed, f"{key} fails, and its trial has the status ok"
        assert trial.reason, f"{key} failed with status {trial.status} and no reason"
        assert trial.value is None, f"{key} failed and has the value {trial.value}"
        return
    assert not trial.status.failed, f"{key} runs and came back as {trial.status}: {trial.reason}"
    assert trial.value is not None and isfinite(trial.value), (
        f"{key} came back as ok with the value {trial.value}"
    )
    assert trial.spread >= 0, f"{key} has the spread {trial.spread}"
