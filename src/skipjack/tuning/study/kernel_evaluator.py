"""The evaluator of kernels: they are built, verified and timed next to the best so far."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from skipjack.core import Candidate, Config, Objective, Problem, Space, Status, Trial
from skipjack.execute import Block, Failure, Loadable, summarize
from skipjack.execute.pool import Build
from skipjack.solvers import BuildingSolver, find_solver, tolerance_factor_of
from skipjack.tuning.study.build_queue import BuildQueue
from skipjack.tuning.study.context import TuningContext
from skipjack.tuning.study.engine import LedgerBuffer
from skipjack.tuning.study.evaluator import RacingEvaluator
from skipjack.tuning.study.limits import Limits
from skipjack.tuning.study.loaded_candidate import KernelChecks, LoadedCandidate

log = logging.getLogger(__name__)


class CandidateEvaluator(RacingEvaluator):
    """Runs candidates of one problem in a run session.

    With `prune_slow` it spends little time on candidates that are slow and far behind: see
    `LoadedCandidate.cut_short`.
    """

    cached_only = False
    """Whether it builds nothing and takes machine code from the store."""

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
        """The digests of all machine code that was built or known, in order."""

    def add_solver(self, solver: BuildingSolver, space: Space) -> None:
        """Accept candidates of this solver from now on."""
        self.queue.add_solver(solver, space)

    def prepare(self) -> None:
        """Make the arrays and the reference; call it before anything is timed."""
        with self._context.tracer.span("prepare", "run"):
            self._context.session.prepare(self._problem)

    def lead_with(self, best: LoadedCandidate) -> None:
        """Start with the best of an earlier evaluator, whose kernels the session has dropped."""
        assert best.code is not None
        best.kernel = self._context.session.add(best.code)
        self._kernels[best.kernel] = self.best = best

    @property
    def crowded(self) -> bool:
        """Whether the session has so many kernels that it should be restarted."""
        return len(self._kernels) > self.limits.most_kernels

    @property
    def pace_ns(self) -> float:
        """The time of the fastest, perhaps a library; infinite while nothing is known."""
        return min(self._library_ns, super().pace_ns)

    @property
    def pending(self) -> int:
        """Candidates that were submitted and not yet returned."""
        return self.queue.pending

    @property
    def ahead(self) -> int:
        """Enough candidates to keep the builders slightly ahead of the timing."""
        return 2 * self._context.pool.size + self.limits.batch_candidates

    @property
    def batch(self) -> int:
        """How many are timed side by side; few if calls are slow, so that time limits hold."""
        if self.pace_ns == float("inf"):
            return 1 if self._prune_slow else 2
        return self.limits.batch_candidates if self.pace_ns < self.limits.slow_ns else 1

    def submit(self, candidate: Candidate) -> None:
        """Queue a candidate's build; `collect` returns the candidate when it was timed."""
        self.queue.submit(candidate)

    def collect(self, wait_s: float) -> list[tuple[Candidate, Trial]]:
        """Verify and time a batch of built candidates."""
        builds = self.queue.collect(wait_s, self.batch)
        trials = self.measure(builds) if builds else []
        return list(zip([build.candidate for build in builds], trials, strict=True))

    def withdraw(self) -> None:
        """Forget all candidates; builds that were begun continue, and are not waited for."""
        self.queue.withdraw()

    def forget(self) -> None:
        """Forget all candidates but the fastest, and the records that were not written."""
        self.loaded.clear()
        self._buffer.discard()

    def record_build(self, build: Build) -> str:
        """Store the artifact and record the build; returns the artifact's digest."""
        tracer, config = self._context.tracer, build.candidate.config
        tracer.add(str(config), "build", build.started, build.seconds)
        self.builds += not build.cached and build.status is Status.OK
        digest = self.queue.keep(build, self._buffer.build)
        if not build.status.failed:
            self.digests[digest] = None
        return digest

    # running

    def measure(self, builds: Sequence[Build]) -> list[Trial]:
        """Verify builds of a batch and time them next to the best; returns trials in order."""
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
        tolerance_factor = tolerance_factor_of(solver, self._problem)
        code = Loadable(
            data,
            digest,
            build.symbol,
            build.abi,
            tuple(build.slots),
            tolerance_factor=tolerance_factor,
        )
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
        """Add a library's function; it is checked as kernels are."""
        candidate = Candidate(self._problem, name, Config())
        tolerance_factor = tolerance_factor_of(find_solver(name), self._problem)
        kernel = self._context.session.add(Loadable(vendor=name, tolerance_factor=tolerance_factor))
        loaded = self._kernels[kernel] = LoadedCandidate(candidate, kernel, version)
        failure = self._checks.check(loaded)
        if failure:
            self._failed(candidate, failure.status, failure.reason)
            return failure
        self._library_ns = min(self._library_ns, loaded.checked_ns)
        loaded.time_ns = loaded.checked_ns
        self._limit_call_time()
        return loaded

    def time_vendors(
        self, vendors: Sequence[LoadedCandidate], rounds: int
    ) -> dict[str, float | Failure]:
        """The times of libraries by name, from the same blocks as the best so far."""
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
        """Check it again; its time is that of its faster call."""
        self._checks.again(loaded)
        loaded.time_ns = min(loaded.time_ns, loaded.checked_ns)

    def _one_call_says_enough(self, loaded: LoadedCandidate) -> bool:
        """Whether a call is long, and far behind or the first of its solver.

        The time need not be exact: the best of every solver is timed again in the final.
        """
        if not self._prune_slow or loaded.checked_ns <= self.limits.long_ns:
            return False
        far = loaded.checked_ns > self.limits.far_ratio * self.pace_ns
        return far or loaded.solver not in self.leaders()

    def _settle_by_one_call(self, loaded: LoadedCandidate) -> Trial:
        """Take the time of its checked call."""
        loaded.time_ns = loaded.checked_ns
        self._record([Block(loaded.kernel, 0, 1, (loaded.checked_ns,), (), False)])
        trial = self._trial(loaded, loaded.checked_ns)
        self._update_best([loaded])
        return trial

    def _limit_call_time(self) -> None:
        if self._prune_slow:
            self._context.session.limit_call_time(self.limits.patience_ratio * self.pace_ns * 1e-9)

    def _update_best(self, entered: list[LoadedCandidate]) -> None:
        super()._update_best(entered)
        self._limit_call_time()

    def runs_unaligned(self, loaded: LoadedCandidate) -> bool:
        """Whether it is right on unaligned arrays, too; otherwise it is dropped."""
        if loaded.verified_unaligned:
            return True
        failure = self._checks.unaligned(loaded)
        if failure:
            reason = f"it fails on unaligned arrays: {failure.reason}"
            log.warning("%s cannot win: %s", loaded.candidate.key, reason)
            self._drop(loaded, failure.status, reason)
        return loaded.verified_unaligned


class RoundBuilder(CandidateEvaluator):
    """Builds candidates that another machine times; those that do not build are returned."""

    def collect(self, wait_s: float) -> list[tuple[Candidate, Trial]]:
        """The trials of candidates that failed."""
        failed = []
        for build in self.queue.collect(wait_s, self.queue.pending):
            self.record_build(build)
            if build.status.failed:
                trial = self._failed(build.candidate, build.status, build.reason)
                failed.append((build.candidate, trial))
        return failed


class RoundTimer(CandidateEvaluator):
    """Times candidates that another machine has built."""

    cached_only = True
