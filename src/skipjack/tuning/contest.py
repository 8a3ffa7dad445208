"""Candidates of one problem as they are built, verified and timed beside the best so far."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence

from skipjack.core.config import Config
from skipjack.core.objective import Objective
from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.execute.build_pool import Build
from skipjack.execute.session import Failure, Loadable
from skipjack.execute.statistics import Block, best_sentinel, summarize
from skipjack.ledger import CandidateKey
from skipjack.solvers import find_solver
from skipjack.solvers.solver import slack_of
from skipjack.tuning.build_desk import build_record, identity_of, keep_artifact
from skipjack.tuning.checks import Checks
from skipjack.tuning.context import TuningContext
from skipjack.tuning.journal import Journal, measurement
from skipjack.tuning.runner import Runner

log = logging.getLogger(__name__)

HOPELESS = 1.25
"""A candidate this much slower than the best after its first block gets no second one."""
_MOST_DRIFT = 1.5
SLOW_NS = 2e7
"""A sample this long has averaged out most of the noise, so few are taken and few side by side."""
LONG_NS = 1e8
"""Where a single call takes longer, those far behind are not called a second time."""
_FAR = 2.0
"""So many times slower than the fastest is far behind."""
_PATIENCE = 20.0
"""A call that takes so many times the fastest one's time is ended."""


class Contest:
    """Runs candidates of one problem; remembers the best and writes everything down.

    A hurried one spends little on those that are long and far behind: see `Runner.cut_short`.
    """

    def __init__(
        self,
        context: TuningContext,
        journal: Journal,
        problem: Problem,
        objective: Objective,
        *,
        hurried: bool = False,
    ) -> None:
        self._shop, self._journal = context, journal
        self._problem, self._objective = problem, objective
        self._checks = Checks(context)
        self._blocks: list[Block] = []
        self._block_number = 0
        self._hurried = hurried
        self._library_ns = float("inf")
        self.failures: dict[str, tuple[Status, str]] = {}
        """The last one of each solver that had any."""
        self.failed: set[str] = set()
        """Keys of candidates that failed, whatever they did before."""
        self.runners: dict[str, Runner] = {}
        """By the candidate's key."""
        self.best: Runner | None = None
        self.builds = 0
        self.runs = 0
        with context.tracer.span("prepare", "run"):
            context.session.prepare(problem)

    @property
    def pace_ns(self) -> float:
        """How long the fastest takes, a library perhaps; infinite while nothing is known."""
        return min(self._library_ns, self.best.time_ns if self.best else float("inf"))

    # building

    def record_build(self, build: Build, version: int) -> str:
        """Keep the artifact and the fact; gives the artifact's digest."""
        shop = self._shop
        shop.tracer.add(str(build.candidate.config), "build", build.started, build.seconds)
        digest = keep_artifact(shop, build)
        self.builds += not build.cached and build.status is Status.OK
        if build.source_digest:
            key = CandidateKey.of(build.candidate, version)
            self._journal.build(
                build_record(shop, build, digest), key, identity_of(shop, build.candidate)
            )
        return digest

    # running

    def enter(
        self, builds: Sequence[Build], versions: Mapping[str, int], *, once: bool = False
    ) -> list[Trial]:
        """Take in builds of a batch: verify, time beside the best, give their trials in order.

        `versions` has the version of every solver that they are of. One call is enough of those
        that will be timed again, if it is long and the contest hurried: say `once`.
        """
        trials: dict[str, Trial] = {}
        entered: list[Runner] = []
        for build in builds:
            key = build.candidate.key
            version = versions[build.candidate.solver]
            digest = self.record_build(build, version)
            if build.status.failed:
                trials[key] = self._failed(build.candidate, build.status, build.reason)
                continue
            runner = self._load(build, digest, version)
            failure = self._checks.check(runner)
            if failure:
                trials[key] = self._failed(build.candidate, failure.status, failure.reason)
            elif self._one_call_says_enough(runner, once):
                trials[key] = self._settle_by_one_call(runner)
            else:
                entered.append(runner)
        for runner, trial in self._race(entered):
            trials[runner.candidate.key] = trial
        return [trials[build.candidate.key] for build in builds]

    def _load(self, build: Build, digest: str, version: int) -> Runner:
        data = build.artifact
        if data is None:
            data = self._shop.artifacts.get(digest)
        slack = slack_of(find_solver(build.candidate.solver), self._problem)
        sha256 = hashlib.sha256(data).hexdigest()
        loadable = Loadable(data, sha256, build.symbol, build.abi, build.slots, slack=slack)
        return Runner(
            build.candidate,
            version,
            build.source_digest,
            self._shop.session.add(loadable),
            digest,
            build.symbol,
            build.abi,
            tuple(build.slots),
            resources=build.resources,
            compiler=build.compiler,
        )

    def add_vendor(self, name: str, version: int) -> Runner | Failure:
        """Take in a library's function; it is checked like everybody else."""
        candidate = Candidate(self._problem, name, Config())
        slack = slack_of(find_solver(name), self._problem)
        kernel = self._shop.session.add(Loadable(vendor=name, slack=slack))
        runner = Runner(candidate, version, None, kernel)
        failure = self._checks.check(runner)
        if failure:
            self._failed(candidate, failure.status, failure.reason)
            return failure
        self._library_ns = min(self._library_ns, runner.checked_ns)
        runner.time_ns = runner.checked_ns
        self._hurry()
        return runner

    def call_again(self, runner: Runner) -> None:
        """Check it once more; it is as fast as the faster of its calls."""
        self._checks.again(runner)
        runner.time_ns = min(runner.time_ns, runner.checked_ns)

    def far_behind(self, time_ns: float) -> bool:
        """Whether a time is long and far from the fastest, for a contest that is hurried."""
        return self._hurried and time_ns > max(LONG_NS, _FAR * self.pace_ns)

    def leaders(self) -> dict[str, Runner]:
        """The fastest of every solver so far, by its name."""
        ranked = sorted(self.runners.values(), key=lambda runner: -runner.time_ns)
        return {runner.solver: runner for runner in ranked}

    def _one_call_says_enough(self, runner: Runner, once: bool) -> bool:
        """A long call that is far behind, or the first of its solver, of which few are tried.

        Its time need not be exact: the best of every solver runs again in the final.
        """
        first = runner.solver not in self.leaders()
        long = self._hurried and runner.checked_ns > LONG_NS
        return long and (once or first or self.far_behind(runner.checked_ns))

    def _settle_by_one_call(self, runner: Runner) -> Trial:
        """Its one call, the checked one, is its time."""
        runner.time_ns = runner.checked_ns
        block = Block(runner.kernel, 0, 1, (runner.checked_ns,), (), False)
        self._record({runner.kernel: [block]}, {runner.kernel: runner})
        trial = self._trial(runner, runner.checked_ns)
        self._crown([runner])
        return trial

    def _hurry(self) -> None:
        if self._hurried:
            self._shop.session.hurry(_PATIENCE * self.pace_ns * 1e-9)

    def _failed(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        self.failures[candidate.solver] = status, reason
        self.failed.add(candidate.key)
        return Trial(candidate.config, status, reason=reason)

    def _race(self, entered: list[Runner]) -> list[tuple[Runner, Trial]]:
        """One block for all; more for those that may win; the best of before runs along."""
        if not entered:
            return []
        field_ = {runner.kernel: runner for runner in entered}
        everyone = {runner.kernel: runner for runner in [*entered, *self._along()]}
        blocks, failures = self.time(list(field_.values()), 1)
        first = {kernel: summarize(mine).time_ns for kernel, mine in blocks.items()}
        leader = min(first.values(), default=float("inf"))
        hopeful = [
            r for r in field_.values() if first.get(r.kernel, float("inf")) < leader * HOPELESS
        ]
        if hopeful and not (self._hurried and leader > LONG_NS):
            again = self._shop.protocol.race_blocks - 1
            more, late = self.time(hopeful, again if leader < SLOW_NS else 1)
            failures += late
            for kernel, mine in more.items():
                blocks[kernel] = [*blocks.get(kernel, []), *mine]
        failed = {failure.kernel: failure for failure in failures}
        scale = self._scale(blocks)
        results = []
        for runner in entered:
            failure = failed.get(runner.kernel)
            if failure or runner.kernel not in blocks:
                reason = failure.reason if failure else "it was not timed"
                status = failure.status if failure else Status.ERROR
                results.append((runner, self._failed(runner.candidate, status, reason)))
                continue
            results.append((runner, self._settle(runner, blocks[runner.kernel], scale)))
        self._record(blocks, everyone)
        self._crown(entered)
        return results

    def _along(self) -> list[Runner]:
        return [self.best] if self.best else []

    def time(
        self, runners: Sequence[Runner], blocks: int
    ) -> tuple[dict[int, list[Block]], list[Failure]]:
        """Interleaved blocks of these and of the best so far."""
        everyone = {runner.kernel: runner for runner in [*runners, *self._along()]}
        with self._shop.tracer.span(f"time {len(everyone)} kernels", "run"):
            timed, failures = self._shop.session.time(list(everyone), blocks)
        for failure in failures:
            # A kernel that crashes now and then is no winner, also if it led so far.
            self._drop(everyone[failure.kernel], failure.status, failure.reason)
        by_kernel: dict[int, list[Block]] = {}
        for block in timed:
            by_kernel.setdefault(block.kernel, []).append(block)
        self._blocks += timed
        self.runs += len(runners)
        return by_kernel, failures

    def _scale(self, blocks: Mapping[int, list[Block]]) -> float:
        """How much slower than usual the best so far ran just now.

        Dividing by it makes values of different batches comparable. What is usual is the median
        of all its blocks: its first ones were probably lucky, or it would not lead.
        """
        if not self.best or self.best.kernel not in blocks:
            return 1.0
        self.best.blocks += blocks[self.best.kernel]
        self.best.time_ns = summarize(self.best.blocks).time_ns
        scale = summarize(blocks[self.best.kernel]).time_ns / self.best.time_ns
        return min(max(scale, 1.0 / _MOST_DRIFT), _MOST_DRIFT)

    def _settle(self, runner: Runner, blocks: list[Block], scale: float) -> Trial:
        timing = summarize(blocks, best_sentinel(self._blocks))
        runner.time_ns, runner.spread = timing.time_ns / scale, timing.spread
        runner.blocks = list(blocks)
        return self._trial(runner, timing.time_ns)

    def _trial(self, runner: Runner, raw_ns: float) -> Trial:
        metrics = {
            "time_ns": runner.time_ns,
            "raw_time_ns": raw_ns,
            "error_over_tolerance": runner.error_ratio,
            **runner.resources,
        }
        value = self._objective.value(metrics)
        self.runners[runner.candidate.key] = runner
        spread = runner.spread * (value or 0.0)
        return Trial(runner.candidate.config, Status.OK, value, spread, metrics=metrics)

    def _crown(self, entered: list[Runner]) -> None:
        """Keep the leaders loaded; free the others."""
        for runner in entered:
            if runner.time_ns < (self.best.time_ns if self.best else float("inf")):
                self.best = runner
        for runner in entered:
            if self.best and runner.time_ns > self.best.time_ns * HOPELESS:
                self._shop.session.unload(runner.kernel)
        self._hurry()

    def _record(self, blocks: Mapping[int, list[Block]], who: Mapping[int, Runner]) -> None:
        records = []
        for kernel, mine in blocks.items():
            for block in mine:
                self._block_number += 1
                records.append(measurement(self._shop, who[kernel], block, self._block_number))
        self._journal.measure(records)

    def record_blocks(self, blocks: Mapping[int, Sequence[Block]], who: Sequence[Runner]) -> None:
        """Write down the blocks of a final or a confirmation too."""
        self._record({k: list(mine) for k, mine in blocks.items()}, {r.kernel: r for r in who})

    def finalists(
        self, count: int, solver: str | None = None, but: Candidate | None = None
    ) -> list[Runner]:
        """The fastest so far, best first, checked once more on arrays that are not aligned.

        Of one solver, or of all; `but` is none of them.
        """
        found: list[Runner] = []
        for runner in sorted(self.runners.values(), key=lambda runner: runner.time_ns):
            if len(found) == count:
                break
            if runner.candidate == but:
                continue
            if solver in (None, runner.solver) and self.runs_anywhere(runner):
                found.append(runner)
        self.best = found[0] if found and self.best is None else self.best
        return found

    def runs_anywhere(self, runner: Runner) -> bool:
        """Whether it is right on arrays that are not aligned, too; if not it is out."""
        if runner.anywhere:
            return True
        failure = self._checks.elsewhere(runner)
        if failure:
            reason = f"it fails on unaligned arrays: {failure.reason}"
            log.warning("%s is no winner, %s", runner.candidate.key, reason)
            self._drop(runner, failure.status, reason)
        return runner.anywhere

    def _drop(self, runner: Runner, status: Status, reason: str) -> None:
        self._failed(runner.candidate, status, reason)
        self.runners.pop(runner.candidate.key, None)
        self.best = None if runner is self.best else self.best
