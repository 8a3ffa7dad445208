"""Candidates of one problem as they are built, verified and timed beside the best so far."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from skipjack.core.config import Config
from skipjack.core.objective import Objective
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.execute.build_pool import Build
from skipjack.execute.session import Failure, Loadable
from skipjack.execute.statistics import Block, best_sentinel, by_kernel, summarize
from skipjack.solvers import find_solver
from skipjack.solvers.solver import BuildingSolver, slack_of
from skipjack.tuning.build_queue import BuildQueue
from skipjack.tuning.context import TuningContext
from skipjack.tuning.engine import LedgerBuffer
from skipjack.tuning.limits import Limits
from skipjack.tuning.loaded_candidate import KernelChecks, LoadedCandidate

log = logging.getLogger(__name__)


class CandidateEvaluator:
    """Runs candidates of one problem; remembers the best and writes everything down.

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
        self._context, self._buffer = context, buffer
        self.limits = limits
        self.queue = BuildQueue(context, cached_only=self.cached_only)
        self._problem, self._objective = problem, objective
        self._checks = KernelChecks(context)
        self._best_sentinel_ns = float("inf")
        self._block_number = 0
        self._prune_slow = prune_slow
        self._library_ns = float("inf")
        self._kernels: dict[int, LoadedCandidate] = {}
        """All that the session was given, libraries too, by their numbers."""
        self.failures: dict[str, tuple[Status, str]] = {}
        """The last one of each solver that had any."""
        self.failed: set[str] = set()
        """Keys of candidates that failed, whatever they did before."""
        self.loaded: dict[str, LoadedCandidate] = {}
        """Those that were built and ran, by the candidate's key."""
        self.best: LoadedCandidate | None = None
        self.digests: dict[str, None] = {}
        """Of all machine code that was built or is known from before, in order."""
        self.builds = 0
        self.runs = 0
        """How many kernels were timed, each as often as it was."""

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
        return min(self._library_ns, self.best.time_ns if self.best else float("inf"))

    def leader_times_ns(self) -> list[float]:
        """What the fastest of each solver takes."""
        return [loaded.time_ns for loaded in self.leaders().values()]

    @property
    def pending(self) -> int:
        """Candidates that were submitted and have not come back."""
        return self.queue.pending

    @property
    def ahead(self) -> int:
        """So many keep the builders busy a little ahead of the timing."""
        return 2 * self._context.pool.size + self.limits.batch_candidates

    @property
    def confirm_pairs(self) -> int:
        """As the protocol of timing says."""
        return self._context.protocol.confirm_blocks

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

    def leaders(self) -> dict[str, LoadedCandidate]:
        """The fastest of every solver so far, by its name."""
        found: dict[str, LoadedCandidate] = {}
        for loaded in self.loaded.values():
            if loaded.solver not in found or loaded.time_ns <= found[loaded.solver].time_ns:
                found[loaded.solver] = loaded
        return found

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

    def _failed(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        self.failures[candidate.solver] = status, reason
        self.failed.add(candidate.key)
        return Trial(candidate.config, status, reason=reason)

    def _race(self, entered: list[LoadedCandidate]) -> list[tuple[LoadedCandidate, Trial]]:
        """One block for all; more for those that may win; the best of before runs along."""
        if not entered:
            return []
        blocks, failures = self._time_beside_best(entered, 1)
        first = {kernel: summarize(mine).time_ns for kernel, mine in blocks.items()}
        leader = min(first.values(), default=float("inf"))
        most_ns = leader * self.limits.near_ratio
        hopeful = [one for one in entered if first.get(one.kernel, float("inf")) < most_ns]
        if hopeful and not (self._prune_slow and leader > self.limits.long_ns):
            again = self._context.protocol.race_blocks - 1 if leader < self.limits.slow_ns else 1
            more, late = self._time_beside_best(hopeful, again)
            failures |= late
            for kernel, mine in more.items():
                blocks[kernel] = [*blocks.get(kernel, []), *mine]
        scale = self._scale(blocks)
        results = []
        for loaded in entered:
            if loaded.kernel in failures or loaded.kernel not in blocks:
                failure = failures.get(loaded.kernel)
                reason = failure.reason if failure else "it was not timed"
                status = failure.status if failure else Status.ERROR
                results.append((loaded, self._failed(loaded.candidate, status, reason)))
                continue
            results.append((loaded, self._settle(loaded, blocks[loaded.kernel], scale)))
        self._update_best(entered)
        return results

    def _time_beside_best(
        self, group: Sequence[LoadedCandidate], rounds: int
    ) -> tuple[dict[int, list[Block]], dict[int, Failure]]:
        everyone = [*group, *([self.best] if self.best else [])]
        blocks, failures = self.time([one.kernel for one in everyone], rounds)
        return by_kernel(blocks), {failure.kernel: failure for failure in failures}

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these, which are written down.

        One that fails is out: a kernel that crashes now and then is no winner, also if it led.
        """
        with self._context.tracer.span(f"time {len(kernels)} kernels", "run"):
            timed, failures = self._context.session.time(kernels, blocks)
        for failure in failures:
            self._drop(self._kernels[failure.kernel], failure.status, failure.reason)
        self._best_sentinel_ns = min(self._best_sentinel_ns, best_sentinel(timed))
        self.runs += len(kernels)
        self._record(timed)
        return timed, failures

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
        most = self.limits.most_drift
        return min(max(scale, 1.0 / most), most)

    def _settle(self, loaded: LoadedCandidate, blocks: list[Block], scale: float) -> Trial:
        timing = summarize(blocks, self._best_sentinel_ns)
        loaded.time_ns, loaded.spread = timing.time_ns / scale, timing.spread
        loaded.blocks = list(blocks)
        return self._trial(loaded, timing.time_ns)

    def _trial(self, loaded: LoadedCandidate, raw_ns: float) -> Trial:
        metrics = {
            "time_ns": loaded.time_ns,
            "raw_time_ns": raw_ns,
            "error_over_tolerance": loaded.error_ratio,
            **loaded.resources,
        }
        value = self._objective.value(metrics)
        self.loaded[loaded.candidate.key] = loaded
        spread = loaded.spread * (value or 0.0)
        return Trial(loaded.candidate.config, Status.OK, value, spread, metrics=metrics)

    def _update_best(self, entered: list[LoadedCandidate]) -> None:
        """Keep the leaders loaded; free the others."""
        for loaded in entered:
            if loaded.time_ns < (self.best.time_ns if self.best else float("inf")):
                self.best = loaded
        for loaded in entered:
            if self.best and loaded.time_ns > self.best.time_ns * self.limits.near_ratio:
                self._context.session.unload(loaded.kernel)
        self._hurry()

    def _record(self, blocks: Sequence[Block]) -> None:
        first = self._block_number + 1
        self._block_number += len(blocks)
        self._buffer.measure(
            [
                self._kernels[block.kernel].measurement(self._context, block, number)
                for number, block in enumerate(blocks, first)
            ]
        )

    def finalists(
        self, count: int, solver: str | None = None, but: Candidate | None = None
    ) -> list[LoadedCandidate]:
        """The fastest so far, best first, checked once more on arrays that are not aligned.

        Of one solver, or of all; `but` is none of them.
        """
        found: list[LoadedCandidate] = []
        for loaded in sorted(self.loaded.values(), key=lambda loaded: loaded.time_ns):
            if len(found) == count:
                break
            if loaded.candidate == but:
                continue
            if solver in (None, loaded.solver) and self.runs_anywhere(loaded):
                found.append(loaded)
        return found

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

    def _drop(self, loaded: LoadedCandidate, status: Status, reason: str) -> None:
        self._failed(loaded.candidate, status, reason)
        self.loaded.pop(loaded.candidate.key, None)
        if loaded is self.best:
            others = self.loaded.values()
            self.best = min(others, key=lambda one: one.time_ns, default=None)


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
