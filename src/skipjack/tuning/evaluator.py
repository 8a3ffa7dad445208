"""Candidates of one problem as they are built, verified and timed beside the best so far."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from skipjack.bank import LaunchData
from skipjack.core.config import Config
from skipjack.core.objective import Objective
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.execute.build_pool import Build
from skipjack.execute.confirm import Confirmation, confirm
from skipjack.execute.session import Failure, Loadable
from skipjack.execute.statistics import Block, Ratio, best_sentinel, summarize
from skipjack.gpu.artifact import ABI as GPU_ABI
from skipjack.gpu.plan import from_slots, scratch_sizes
from skipjack.ledger import CandidateKey
from skipjack.native.slots import workspace_bytes
from skipjack.solvers import find_solver
from skipjack.solvers.solver import BuildingSolver, slack_of
from skipjack.tuning.build_queue import BuildQueue, build_record, identity_of, keep_artifact
from skipjack.tuning.context import TuningContext
from skipjack.tuning.ledger_buffer import LedgerBuffer, measurement
from skipjack.tuning.limits import Limits

log = logging.getLogger(__name__)


class CandidateEvaluator:
    """Runs candidates of one problem; remembers the best and writes everything down.

    With `prune_slow` it spends little on those that are long and far behind: see
    `LoadedCandidate.cut_short`.
    """

    def __init__(
        self,
        context: TuningContext,
        buffer: LedgerBuffer,
        problem: Problem,
        objective: Objective,
        limits: Limits,
        *,
        prune_slow: bool = False,
        cached_only: bool = False,
    ) -> None:
        self._context, self._buffer = context, buffer
        self.limits = limits
        self.queue = BuildQueue(context, cached_only=cached_only)
        self._versions: dict[str, int] = {}
        self._problem, self._objective = problem, objective
        self._checks = _Checks(context)
        self._best_sentinel_ns = float("inf")
        self._block_number = 0
        self._prune_slow = prune_slow
        self._library_ns = float("inf")
        self.failures: dict[str, tuple[Status, str]] = {}
        """The last one of each solver that had any."""
        self.failed: set[str] = set()
        """Keys of candidates that failed, whatever they did before."""
        self.loaded: dict[str, LoadedCandidate] = {}
        """By the candidate's key."""
        self.best: LoadedCandidate | None = None
        self.builds = 0
        self.runs = 0

    def add_solver(self, solver: BuildingSolver, space: Space) -> None:
        """Take candidates of this solver from now on."""
        self.queue.add_solver(solver, space)
        self._versions[solver.name] = solver.version

    def knows(self, solver: str) -> bool:
        """Whether candidates of this solver are taken."""
        return solver in self._versions

    def prepare(self) -> None:
        """Make arrays and reference; nothing is timed before."""
        with self._context.tracer.span("prepare", "run"):
            self._context.session.prepare(self._problem)

    def lead_with(self, best: LoadedCandidate) -> None:
        """Go on from the best of an evaluator whose kernels the session has let go of."""
        assert best.loadable is not None
        best.kernel = self._context.session.add(best.loadable)
        self.best = best

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
    def batch(self) -> int:
        """How many are timed side by side; of slow ones few, so that the clock is looked at."""
        if self.pace_ns == float("inf"):
            return 1 if self._prune_slow else 2
        return self.limits.batch_candidates if self.pace_ns < self.limits.slow_ns else 1

    def submit(self, candidate: Candidate) -> None:
        """Have a candidate built; it comes out of `collect` sooner or later."""
        self.queue.submit(candidate)

    def collect(self, wait_s: float, most: int | None = None) -> list[tuple[Candidate, Trial]]:
        """Verify and time a batch of what is built, of `most` at most."""
        builds = self.queue.collect(wait_s, most or self.batch)
        trials = self.measure(builds) if builds else []
        return list(zip([build.candidate for build in builds], trials, strict=True))

    def withdraw(self) -> None:
        """Forget those whose build was not begun."""
        self.queue.withdraw()

    def compare(
        self, challenger: Candidate, rival: Candidate, stop: Callable[[], bool]
    ) -> Ratio | None:
        """How many times faster the challenger is, on fresh samples; None if one fails now."""
        first, second = self.loaded.get(challenger.key), self.loaded.get(rival.key)
        if first is None or second is None:
            return None
        return self.confirm(first, [second], stop).gains.get(second.kernel)

    def confirm(
        self, winner: LoadedCandidate, rivals: Sequence[LoadedCandidate], stop: Callable[[], bool]
    ) -> Confirmation:
        """Time a winner beside what it has to beat, and write the blocks down."""
        context = self._context
        with context.tracer.span("confirm", "run"):
            confirmation = confirm(
                context.session,
                winner.kernel,
                [rival.kernel for rival in rivals],
                context.protocol.confirm_blocks,
                stop,
                context.clock,
            )
        self.record_blocks(confirmation.blocks, [winner, *rivals])
        return confirmation

    def forget(self) -> None:
        """Let go of all but the fastest, and of what was to be written down."""
        self.loaded.clear()
        self._buffer.discard()

    # building

    def record_build(self, build: Build) -> str:
        """Keep the artifact and the fact; gives the artifact's digest."""
        context, version = self._context, self._versions[build.candidate.solver]
        context.tracer.add(str(build.candidate.config), "build", build.started, build.seconds)
        digest = keep_artifact(context, build)
        self.builds += not build.cached and build.status is Status.OK
        if build.source_digest:
            key = CandidateKey.of(build.candidate, version)
            self._buffer.build(
                build_record(context, build, digest), key, identity_of(context, build.candidate)
            )
        return digest

    # running

    def measure(self, builds: Sequence[Build], *, once: bool = False) -> list[Trial]:
        """Verify builds of a batch, time them beside the best, give their trials in order.

        One call is enough of those that will be timed again, if it is long and slow ones are
        pruned: say `once`.
        """
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
            elif self._one_call_says_enough(loaded, once):
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
        slack = slack_of(find_solver(build.candidate.solver), self._problem)
        sha256 = hashlib.sha256(data).hexdigest()
        loadable = Loadable(data, sha256, build.symbol, build.abi, build.slots, slack=slack)
        return LoadedCandidate(
            build.candidate,
            self._versions[build.candidate.solver],
            build.source_digest,
            self._context.session.add(loadable),
            digest,
            build.symbol,
            build.abi,
            tuple(build.slots),
            resources=build.resources,
            compiler=build.compiler,
            loadable=loadable,
        )

    def add_vendor(self, name: str, version: int) -> LoadedCandidate | Failure:
        """Take in a library's function; it is checked like everybody else."""
        candidate = Candidate(self._problem, name, Config())
        slack = slack_of(find_solver(name), self._problem)
        kernel = self._context.session.add(Loadable(vendor=name, slack=slack))
        loaded = LoadedCandidate(candidate, version, None, kernel)
        failure = self._checks.check(loaded)
        if failure:
            self._failed(candidate, failure.status, failure.reason)
            return failure
        self._library_ns = min(self._library_ns, loaded.checked_ns)
        loaded.time_ns = loaded.checked_ns
        self._hurry()
        return loaded

    def call_again(self, loaded: LoadedCandidate) -> None:
        """Check it once more; it is as fast as the faster of its calls."""
        self._checks.again(loaded)
        loaded.time_ns = min(loaded.time_ns, loaded.checked_ns)

    def far_behind(self, time_ns: float) -> bool:
        """Whether a time is long and far behind the best; always False without `prune_slow`."""
        return self._prune_slow and time_ns > max(
            self.limits.long_ns, self.limits.far_ratio * self.pace_ns
        )

    def leaders(self) -> dict[str, LoadedCandidate]:
        """The fastest of every solver so far, by its name."""
        found: dict[str, LoadedCandidate] = {}
        for loaded in self.loaded.values():
            if loaded.solver not in found or loaded.time_ns <= found[loaded.solver].time_ns:
                found[loaded.solver] = loaded
        return found

    def _one_call_says_enough(self, loaded: LoadedCandidate, once: bool) -> bool:
        """A long call that is far behind, or the first of its solver, of which few are tried.

        Its time need not be exact: the best of every solver runs again in the final.
        """
        first = loaded.solver not in self.leaders()
        long = self._prune_slow and loaded.checked_ns > self.limits.long_ns
        return long and (once or first or self.far_behind(loaded.checked_ns))

    def _settle_by_one_call(self, loaded: LoadedCandidate) -> Trial:
        """Its one call, the checked one, is its time."""
        loaded.time_ns = loaded.checked_ns
        block = Block(loaded.kernel, 0, 1, (loaded.checked_ns,), (), False)
        self._record({loaded.kernel: [block]}, {loaded.kernel: loaded})
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
        field_ = {loaded.kernel: loaded for loaded in entered}
        everyone = {loaded.kernel: loaded for loaded in [*entered, *self._reference()]}
        blocks, failures = self.time(list(field_.values()), 1)
        first = {kernel: summarize(mine).time_ns for kernel, mine in blocks.items()}
        leader = min(first.values(), default=float("inf"))
        hopeful = [
            r
            for r in field_.values()
            if first.get(r.kernel, float("inf")) < leader * self.limits.prune_ratio
        ]
        if hopeful and not (self._prune_slow and leader > self.limits.long_ns):
            again = self._context.protocol.race_blocks - 1
            more, late = self.time(hopeful, again if leader < self.limits.slow_ns else 1)
            failures += late
            for kernel, mine in more.items():
                blocks[kernel] = [*blocks.get(kernel, []), *mine]
        failed = {failure.kernel: failure for failure in failures}
        scale = self._scale(blocks)
        results = []
        for loaded in entered:
            failure = failed.get(loaded.kernel)
            if failure or loaded.kernel not in blocks:
                reason = failure.reason if failure else "it was not timed"
                status = failure.status if failure else Status.ERROR
                results.append((loaded, self._failed(loaded.candidate, status, reason)))
                continue
            results.append((loaded, self._settle(loaded, blocks[loaded.kernel], scale)))
        self._record(blocks, everyone)
        self._update_best(entered)
        return results

    def _reference(self) -> list[LoadedCandidate]:
        return [self.best] if self.best else []

    def time(
        self, group: Sequence[LoadedCandidate], blocks: int
    ) -> tuple[dict[int, list[Block]], list[Failure]]:
        """Interleaved blocks of these and of the best so far."""
        everyone = {one.kernel: one for one in [*group, *self._reference()]}
        with self._context.tracer.span(f"time {len(everyone)} kernels", "run"):
            timed, failures = self._context.session.time(list(everyone), blocks)
        for failure in failures:
            # A kernel that crashes now and then is no winner, also if it led so far.
            self._drop(everyone[failure.kernel], failure.status, failure.reason)
        by_kernel: dict[int, list[Block]] = {}
        for block in timed:
            by_kernel.setdefault(block.kernel, []).append(block)
        self._best_sentinel_ns = min(self._best_sentinel_ns, best_sentinel(timed))
        self.runs += len(group)
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
            if self.best and loaded.time_ns > self.best.time_ns * self.limits.prune_ratio:
                self._context.session.unload(loaded.kernel)
        self._hurry()

    def _record(
        self, blocks: Mapping[int, list[Block]], who: Mapping[int, LoadedCandidate]
    ) -> None:
        records = []
        for kernel, mine in blocks.items():
            for block in mine:
                self._block_number += 1
                records.append(measurement(self._context, who[kernel], block, self._block_number))
        self._buffer.measure(records)

    def record_blocks(
        self, blocks: Mapping[int, Sequence[Block]], who: Sequence[LoadedCandidate]
    ) -> None:
        """Write down the blocks of a final or a confirmation too."""
        self._record({k: list(mine) for k, mine in blocks.items()}, {r.kernel: r for r in who})

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
        self.best = found[0] if found and self.best is None else self.best
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
        self.best = None if loaded is self.best else self.best


class _Checks:
    """Verifies kernels of one problem and records the result on each `LoadedCandidate`."""

    def __init__(self, context: TuningContext) -> None:
        self._context = context
        self._judged: dict[tuple[str, tuple[str | int, ...]], Failure | tuple[float, float]] = {}

    def check(self, loaded: LoadedCandidate) -> Failure | None:
        """What is wrong with it; `loaded` gets the error and the time of the checked call."""
        key = (loaded.source_digest or loaded.solver, loaded.slots)
        if key not in self._judged:
            self._judged[key] = self.again(loaded) or (loaded.error_ratio, loaded.checked_ns)
        known = self._judged[key]
        if isinstance(known, Failure):
            return known
        loaded.error_ratio, loaded.checked_ns = known
        return None

    def again(self, loaded: LoadedCandidate) -> Failure | None:
        """The same, whatever is known already."""
        session = self._context.session
        with self._context.tracer.span(f"verify {loaded.candidate.config}", "run"):
            failure, error = session.verify(loaded.kernel)
        if failure is None:
            loaded.error_ratio = error
            loaded.checked_ns = session.checked_ns(loaded.kernel)
        return failure

    def elsewhere(self, loaded: LoadedCandidate) -> Failure | None:
        """What is wrong with it on arrays that are not aligned."""
        with self._context.tracer.span(f"verify {loaded.candidate.config} elsewhere", "run"):
            failure, _ = self._context.session.verify(loaded.kernel, elsewhere=True)
        loaded.anywhere = failure is None
        return failure


@dataclass(slots=True)
class LoadedCandidate:
    """A candidate that was built and loaded, or a library's function."""

    candidate: Candidate
    version: int
    source_digest: str | None
    kernel: int
    artifact_digest: str = ""
    symbol: str = ""
    abi: str = ""
    slots: tuple[str | int, ...] = ()
    time_ns: float = float("inf")
    spread: float = 0.0
    error_ratio: float = 0.0
    checked_ns: float = 0.0
    """How long the call took that was checked."""
    cut_short: bool = False
    """It was left out of the final, being long and far behind: one call is all that is known."""
    compiler: str = ""
    """Name and version of what compiled it."""
    anywhere: bool = False
    """It was right on arrays that are not aligned, too."""
    blocks: list[Block] = field(default_factory=list)
    """All that was timed of it, for those that were timed beside others again and again."""
    resources: Mapping[str, float] = field(default_factory=dict)
    loadable: Loadable | None = None
    """Its code, which the session holds as well; None for a library."""

    @property
    def solver(self) -> str:
        """The solver's name."""
        return self.candidate.solver

    @property
    def code(self) -> bytes:
        """Its machine code, which needs no file: the cache may have let go of that."""
        assert self.loadable is not None, "libraries have no machine code of ours"
        return self.loadable.data

    def launch(self, compat: str) -> LaunchData | None:
        """How its machine code, which loads where `compat` does, is called; None for a library."""
        if not self.artifact_digest:
            return None
        return LaunchData(
            self.artifact_digest,
            self.symbol,
            self.abi,
            self.slots,
            self.workspace_bytes,
            compat,
        )

    @property
    def workspace_bytes(self) -> int:
        """Memory that it borrows for a call."""
        if self.abi == GPU_ABI:
            return sum(scratch_sizes(from_slots(self.slots)).values())
        return workspace_bytes(self.slots)
