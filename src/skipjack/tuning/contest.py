"""Candidates of one problem as they are built, verified and timed beside the best so far."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skipjack.core.config import Config
from skipjack.core.objective import Objective
from skipjack.core.problem import Problem
from skipjack.core.trial import Candidate, Status, Trial
from skipjack.execute.build_pool import Build
from skipjack.execute.session import Failure, Loadable
from skipjack.execute.statistics import Block, best_sentinel, summarize
from skipjack.ledger import CandidateKey, MeasurementRecord
from skipjack.tuning.build_desk import build_record
from skipjack.tuning.journal import Journal
from skipjack.tuning.workshop import Workshop

log = logging.getLogger(__name__)

HOPELESS = 1.25
"""A candidate this much slower than the best after its first block gets no second one."""
_MOST_DRIFT = 1.5
SLOW_NS = 2e7
"""A sample this long has averaged out most of the noise, so few are taken and few side by side."""


@dataclass(slots=True)
class Runner:
    """A candidate in the session."""

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
    blocks: list[Block] = field(default_factory=list)
    """All that was timed of it, for those that were timed beside others again and again."""
    resources: Mapping[str, float] = field(default_factory=dict)


class Contest:
    """Runs candidates of one problem; remembers the best and writes everything down."""

    def __init__(
        self, workshop: Workshop, journal: Journal, problem: Problem, objective: Objective
    ) -> None:
        self._shop, self._journal = workshop, journal
        self._problem, self._objective = problem, objective
        self._judged: dict[tuple[str, tuple[str | int, ...]], Failure | float] = {}
        self._blocks: list[Block] = []
        self._block_number = 0
        self.runners: dict[str, Runner] = {}
        """By the candidate's key."""
        self.best: Runner | None = None
        self.builds = 0
        self.runs = 0
        with workshop.tracer.span("prepare", "run"):
            workshop.session.prepare(problem)

    # building

    def record_build(self, build: Build, version: int) -> str:
        """Keep the artifact and the fact; gives the artifact's digest."""
        shop = self._shop
        shop.tracer.add(str(build.candidate.config), "build", build.started, build.seconds)
        digest = shop.keep(build)
        self.builds += not build.cached and build.status is Status.OK
        if build.source_digest:
            key = CandidateKey.of(build.candidate, version)
            self._journal.build(build_record(shop, build, digest), key)
        return digest

    # running

    def enter(self, builds: Sequence[Build], versions: Mapping[str, int]) -> list[Trial]:
        """Take in builds of a batch: verify, time beside the best, give their trials in order.

        `versions` has the version of every solver that they are of.
        """
        trials: dict[str, Trial] = {}
        entered: list[Runner] = []
        for build in builds:
            config, key = build.candidate.config, build.candidate.key
            version = versions[build.candidate.solver]
            digest = self.record_build(build, version)
            if build.status.failed:
                trials[key] = Trial(config, build.status, reason=build.reason)
                continue
            runner = self._load(build, digest, version)
            failure = self._verify(runner)
            if failure:
                trials[key] = Trial(config, failure.status, reason=failure.reason)
            else:
                entered.append(runner)
        for runner, trial in self._race(entered):
            trials[runner.candidate.key] = trial
        return [trials[build.candidate.key] for build in builds]

    def _load(self, build: Build, digest: str, version: int) -> Runner:
        loadable = self._shop.loadable(build)
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
        )

    def add_vendor(self, name: str, version: int) -> Runner | Failure:
        """Take in a library's function; it is checked like everybody else."""
        candidate = Candidate(self._problem, name, Config())
        kernel = self._shop.session.add(Loadable(vendor=name))
        runner = Runner(candidate, version, None, kernel)
        return self._verify(runner) or runner

    def _verify(self, runner: Runner) -> Failure | None:
        """Once for each build and set of arguments."""
        key = (runner.source_digest or runner.candidate.solver, runner.slots)
        known = self._judged.get(key)
        if known is None:
            with self._shop.tracer.span(f"verify {runner.candidate.config}", "run"):
                failure, error = self._shop.session.verify(runner.kernel)
            known = self._judged[key] = failure or error
        if isinstance(known, Failure):
            return known
        runner.error_ratio = known
        return None

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
        if hopeful:
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
                results.append((runner, Trial(runner.candidate.config, status, reason=reason)))
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
            if self.best and failure.kernel == self.best.kernel:
                self.runners.pop(self.best.candidate.key, None)
                self.best = None
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
        metrics = {
            "time_ns": runner.time_ns,
            "raw_time_ns": timing.time_ns,
            "error_over_tolerance": runner.error_ratio,
            **runner.resources,
        }
        value = self._objective.value(metrics)
        self.runners[runner.candidate.key] = runner
        return Trial(
            runner.candidate.config,
            Status.OK,
            value,
            timing.spread * (value or 0.0),
            metrics=metrics,
        )

    def _crown(self, entered: list[Runner]) -> None:
        """Keep the leaders loaded; free the others."""
        for runner in entered:
            if runner.time_ns < (self.best.time_ns if self.best else float("inf")):
                self.best = runner
        for runner in entered:
            if self.best and runner.time_ns > self.best.time_ns * HOPELESS:
                self._shop.session.unload(runner.kernel)

    def _record(self, blocks: Mapping[int, list[Block]], who: Mapping[int, Runner]) -> None:
        shop = self._shop
        records = []
        for kernel, mine in blocks.items():
            runner = who[kernel]
            for block in mine:
                self._block_number += 1
                records.append(
                    MeasurementRecord(
                        CandidateKey.of(runner.candidate, runner.version),
                        runner.source_digest,
                        shop.device.instance_key,
                        shop.device.class_key,
                        shop.protocol.key,
                        shop.id,
                        self._block_number,
                        block.samples_ns,
                        sum(block.sentinel_ns) / len(block.sentinel_ns),
                        len(block.samples_ns) if block.disturbed else 0,
                        {"calls": float(block.calls)},
                    )
                )
        self._journal.measure(records)

    def record_confirmation(self, blocks: Mapping[int, Sequence[Block]], who: list[Runner]) -> None:
        """Write down the blocks of a confirmation too."""
        self._record({k: list(mine) for k, mine in blocks.items()}, {r.kernel: r for r in who})

    def finalists(self, count: int) -> list[Runner]:
        """The fastest so far, best first, checked once more on arrays that are not aligned."""
        found: list[Runner] = []
        for runner in sorted(self.runners.values(), key=lambda runner: runner.time_ns):
            if len(found) == count:
                break
            failure, _ = self._shop.session.verify(runner.kernel, elsewhere=True)
            if failure:
                log.warning(
                    "%s is no winner, it fails on unaligned arrays: %s",
                    runner.candidate.key,
                    failure.reason,
                )
                self.runners.pop(runner.candidate.key)
                self.best = None if runner is self.best else self.best
            else:
                found.append(runner)
        self.best = found[0] if found and self.best is None else self.best
        return found
