"""Candidates of one problem as they are built, verified and timed beside the best so far."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.objective import Objective
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.execute.build_pool import Build
from skipjack.execute.session import Failure, Loadable
from skipjack.execute.statistics import Block, summarize
from skipjack.solvers import find_solver
from skipjack.solvers.solver import BuildingSolver, slack_of
from skipjack.tuning.build_queue import BuildQueue
from skipjack.tuning.context import TuningContext
from skipjack.tuning.engine import LedgerBuffer
from skipjack.tuning.evaluators.racing import RacingEvaluator
from skipjack.tuning.limits import Limits
from skipjack.tuning.loaded_candidate import KernelChecks, LoadedCandidate

log = logging.getLogger(__name__)


class CandidateEvaluator(RacingEvaluator):
    """Runs candidates of one problem in a run session.

    With `prune_slow` it spends little on those that are long and far behind: see
    `LoadedCandidate.cut_short`.
    """

    cached_only = False
    """Whether nothing is built here."""

    def __init__(
        self,
        context: TuningContext,
        buffer: LedgerBuffer,
        problem: Problem,
        objective: Objective,
        limits: Limits,
        *,
        prune_slow: bool = False,
    ) -> None:
        super().__init__(context, buffer, objective, limits, prune_slow=prune_slow)
        self._context, self._problem = context, problem
        self.queue = BuildQueue(context, cached_only=self.cached_only)
        self._checks = KernelChecks(context)
        self._library_ns = float("inf")
        self.digests: dict[str, None] = {}
        """Of all machine code that was built or is known from before, in order."""

    def add_solver(self, solver: BuildingSolver, space: Space) -> None:
        """Take candidates of this solver from now on."""
        self.queue.add_solver(solver, space)

    def prepare(self) -> None:
        """Make arrays and reference; nothing is timed before."""
        with self._context.tracer.span("prepare", "run"):
            self._context.session.prepare(self._problem)

    def lead_with(self, best: LoadedCandidate) -> None:
        """Go on from the best of an evaluator whose kernels the session has let go of."""
        assert best.code is not None
        best.kernel = self._context.session.add(best.code)
        self._kernels[best.kernel] = self.best = best

    @property
    def crowded(self) -> bool:
        """Whether the session was given so many kernels that it had better start anew."""
        return len(self._kernels) > self.limits.most_kernels

    @property
    def pace_ns(self) -> float:
        """How long the fastest takes, a library perhaps; infinite while nothing is known."""
        return min(self._library_ns, super().pace_ns)

    @property
    def pending(self) -> int:
        """Candidates that were submitted and have not come back."""
        return self.queue.pending

    @property
    def ahead(self) -> int:
        """So many keep the builders busy a little ahead of the timing."""
        return 2 * self._context.pool.size + self.limits.batch_candidates

    @property
    def batch(self) -> int:
        """How many are timed side by side; of slow ones few, so that the clock is looked at."""
        if self.pace_ns == float("inf"):
            return 1 if self._prune_slow else 2
        return self.limits.batch_candidates if self.pace_ns < self.limits.slow_ns else 1

    def submit(self, candidate: Candidate) -> None:
        """Have a candidate built; it comes out of `collect` sooner or later."""
        self.queue.submit(candidate)

    def collect(self, wait_s: float) -> list[tuple[Candidate, Trial]]:
        """Verify and time a batch of what is built."""
        builds = self.queue.collect(wait_s, self.batch)
        trials = self.measure(builds) if builds else []
        return list(zip([build.candidate for build in builds], trials, strict=True))

    def withdraw(self) -> None:
        """Forget them all; builds that were begun go on, and nobody waits for them."""
        self.queue.withdraw()

    def forget(self) -> None:
        """Let go of all but the fastest, and of what was to be written down."""
        self.loaded.clear()
        self._buffer.discard()

    def record_build(self, build: Build) -> str:
        """Keep the artifact and the fact; gives the artifact's digest."""
        tracer, config = self._context.tracer, build.candidate.config
        tracer.add(str(config), "build", build.started, build.seconds)
        self.builds += not build.cached and build.status is Status.OK
        digest = self.queue.keep(build, self._buffer.build)
        if not build.status.failed:
            self.digests[digest] = None
        return digest

    # running

    def measure(self, builds: Sequence[Build]) -> list[Trial]:
        """Verify builds of a batch, time them beside the best, give their trials in order."""
        trials: dict[str, Trial] = {}
        entered: list[LoadedCandidate] = []
        for build in builds:
            key = build.candidate.key
            digest = self.record_build(build)
            if build.status.failed:
                trials[key] = self._failed(build.candidate, build.status, build.reason)
                continue
            loaded = self._load(build, digest)
            failure = self._checks.check(loaded)
            if failure:
                trials[key] = self._failed(build.candidate, failure.status, failure.reason)
            elif self._one_call_says_enough(loaded):
                trials[key] = self._settle_by_one_call(loaded)
            else:
                entered.append(loaded)
        for loaded, trial in self._race(entered):
            trials[loaded.candidate.key] = trial
        return [trials[build.candidate.key] for build in builds]

    def _load(self, build: Build, digest: str) -> LoadedCandidate:
        data = build.artifact
        if data is None:
            data = self._context.artifacts.get(digest)
        solver = find_solver(build.candidate.solver)
        slack = slack_of(solver, self._problem)
        code = Loadable(data, digest, build.symbol, build.abi, tuple(build.slots), slack=slack)
        kernel = self._context.session.add(code)
        self._kernels[kernel] = LoadedCandidate(
            build.candidate,
            kernel,
            solver.version,
            code,
            build.source_digest,
            build.compiler,
            build.resources,
        )
        return self._kernels[kernel]

    def add_vendor(self, name: str, version: int) -> LoadedCandidate | Failure:
        """Take in a library's function; it is checked like everybody else."""
        candidate = Candidate(self._problem, name, Config())
        slack = slack_of(find_solver(name), self._problem)
        kernel = self._context.session.add(Loadable(vendor=name, slack=slack))
        loaded = self._kernels[kernel] = LoadedCandidate(candidate, kernel, version)
        failure = self._checks.check(loaded)
        if failure:
            self._failed(candidate, failure.status, failure.reason)
            return failure
        self._library_ns = min(self._library_ns, loaded.checked_ns)
        loaded.time_ns = loaded.checked_ns
        self._hurry()
        return loaded

    def time_vendors(
        self, vendors: Sequence[LoadedCandidate], rounds: int
    ) -> dict[str, float | Failure]:
        """How long libraries take, by name, timed in the same blocks as the best so far."""
        blocks, failures = self._time_beside_best(vendors, rounds)
        scale = self._scale(blocks)
        found: dict[str, float | Failure] = {}
        for one in vendors:
            if one.kernel in blocks and one.kernel not in failures:
                found[one.solver] = summarize(blocks[one.kernel]).time_ns / scale
            else:
                found[one.solver] = failures[one.kernel]
        return found

    def call_again(self, loaded: LoadedCandidate) -> None:
        """Check it once more; it is as fast as the faster of its calls."""
        self._checks.again(loaded)
        loaded.time_ns = min(loaded.time_ns, loaded.checked_ns)

    def _one_call_says_enough(self, loaded: LoadedCandidate) -> bool:
        """A long call that is far behind, or the first of its solver, of which few are tried.

        Its time need not be exact: the best of every solver runs again in the final.
        """
        if not self._prune_slow or loaded.checked_ns <= self.limits.long_ns:
            return False
        far = loaded.checked_ns > self.limits.far_ratio * self.pace_ns
        return far or loaded.solver not in self.leaders()

    def _settle_by_one_call(self, loaded: LoadedCandidate) -> Trial:
        """Its one call, the checked one, is its time."""
        loaded.time_ns = loaded.checked_ns
        self._record([Block(loaded.kernel, 0, 1, (loaded.checked_ns,), (), False)])
        trial = self._trial(loaded, loaded.checked_ns)
        self._update_best([loaded])
        return trial

    def _hurry(self) -> None:
        if self._prune_slow:
            self._context.session.hurry(self.limits.patience_ratio * self.pace_ns * 1e-9)

    def _update_best(self, entered: list[LoadedCandidate]) -> None:
        super()._update_best(entered)
        self._hurry()

    def runs_anywhere(self, loaded: LoadedCandidate) -> bool:
        """Whether it is right on arrays that are not aligned, too; if not it is out."""
        if loaded.anywhere:
            return True
        failure = self._checks.elsewhere(loaded)
        if failure:
            reason = f"it fails on unaligned arrays: {failure.reason}"
            log.warning("%s is no winner, %s", loaded.candidate.key, reason)
            self._drop(loaded, failure.status, reason)
        return loaded.anywhere


class RoundBuilder(CandidateEvaluator):
    """Builds candidates that are timed at another place; those that do not build come back."""

    def collect(self, wait_s: float) -> list[tuple[Candidate, Trial]]:
        """What came of those that failed."""
        failed = []
        for build in self.queue.collect(wait_s, self.queue.pending):
            self.record_build(build)
            if build.status.failed:
                trial = self._failed(build.candidate, build.status, build.reason)
                failed.append((build.candidate, trial))
        return failed


class RoundTimer(CandidateEvaluator):
    """Times candidates that were built at another place."""

    cached_only = True
