"""The base of evaluators that time batches of candidates next to the best so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from skipjack.core import Candidate, Objective, Status, Trial
from skipjack.execute import Block, Failure, best_sentinel, by_kernel, summarize
from skipjack.trace import Tracer
from skipjack.tuning.study.engine import LedgerBuffer
from skipjack.tuning.study.limits import Limits
from skipjack.tuning.study.loaded_candidate import LoadedCandidate, TimingPlace


class LoadingSession(Protocol):
    """Holds kernels by number and times them: a run session, or this process."""

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels, and the failures."""

    def unload(self, kernel: int) -> None:
        """Free a kernel's memory; it is loaded again if it is used again."""


class TimingContext(TimingPlace, Protocol):
    """Where and how kernels are timed."""

    tracer: Tracer

    @property
    def session(self) -> LoadingSession:
        """Where kernels run."""


class RacingEvaluator:
    """Times candidates of one problem; keeps the best and records every block.

    Subclasses define how a candidate is built and checked before it is timed.
    """

    def __init__(
        self,
        context: TimingContext,
        buffer: LedgerBuffer,
        objective: Objective,
        limits: Limits,
        *,
        prune_slow: bool = False,
    ) -> None:
        self._timing, self._buffer, self._objective = context, buffer, objective
        self.limits = limits
        self._prune_slow = prune_slow
        self._best_sentinel_ns = float("inf")
        self._block_number = 0
        self._kernels: dict[int, LoadedCandidate] = {}
        """All kernels and libraries of the session by their numbers."""
        self.failures: dict[str, tuple[Status, str]] = {}
        """The last failure of each solver."""
        self.failed: set[str] = set()
        """Keys of candidates that failed, even if they ran before."""
        self.loaded: dict[str, LoadedCandidate] = {}
        """Candidates that were built and ran, by their keys."""
        self.best: LoadedCandidate | None = None
        self.builds = 0
        self.runs = 0
        """How often kernels were timed."""

    @property
    def pace_ns(self) -> float:
        """The time of the fastest candidate; infinite while nothing is known."""
        return self.best.time_ns if self.best else float("inf")

    def leader_times_ns(self) -> list[float]:
        """The time of the fastest candidate of each solver."""
        return [loaded.time_ns for loaded in self.leaders().values()]

    @property
    def confirm_pairs(self) -> int:
        """The number of pairs in the timing protocol."""
        return self._timing.protocol.confirm_blocks

    def leaders(self) -> dict[str, LoadedCandidate]:
        """The fastest candidate of every solver so far, by the solver's name."""
        found: dict[str, LoadedCandidate] = {}
        for loaded in self.loaded.values():
            if loaded.solver not in found or loaded.time_ns <= found[loaded.solver].time_ns:
                found[loaded.solver] = loaded
        return found

    def finalists(
        self, count: int, solver: str | None = None, but: Candidate | None = None
    ) -> list[LoadedCandidate]:
        """The fastest that may win, best first, of one solver or of all, without `but`."""
        found: list[LoadedCandidate] = []
        for loaded in sorted(self.loaded.values(), key=lambda loaded: loaded.time_ns):
            if len(found) == count:
                break
            if loaded.candidate == but:
                continue
            if solver in (None, loaded.solver) and self.runs_unaligned(loaded):
                found.append(loaded)
        return found

    def runs_unaligned(self, loaded: LoadedCandidate) -> bool:
        """Whether it may win, being right on unaligned arrays too; otherwise it is dropped."""
        return True

    def time(self, kernels: Sequence[int], blocks: int) -> tuple[list[Block], list[Failure]]:
        """Interleaved blocks of these kernels, which are recorded.

        A kernel that fails is dropped: one that crashes occasionally cannot win, even if it led.
        """
        with self._timing.tracer.span(f"time {len(kernels)} kernels", "run"):
            timed, failures = self._timing.session.time(kernels, blocks)
        for failure in failures:
            self._drop(self._kernels[failure.kernel], failure.status, failure.reason)
        self._best_sentinel_ns = min(self._best_sentinel_ns, best_sentinel(timed))
        self.runs += len(kernels)
        self._record(timed)
        return timed, failures

    def _race(self, entered: list[LoadedCandidate]) -> list[tuple[LoadedCandidate, Trial]]:
        """Time one block of each, and more of those that may win, with the best so far."""
        if not entered:
            return []
        blocks, failures = self._time_beside_best(entered, 1)
        first = {kernel: summarize(mine).time_ns for kernel, mine in blocks.items()}
        leader = min(first.values(), default=float("inf"))
        most_ns = leader * self.limits.near_ratio
        close_to_best = [one for one in entered if first.get(one.kernel, float("inf")) < most_ns]
        if close_to_best and not (self._prune_slow and leader > self.limits.long_ns):
            again = self._timing.protocol.race_blocks - 1 if leader < self.limits.slow_ns else 1
            more, late = self._time_beside_best(close_to_best, again)
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
        participants = [*group, *([self.best] if self.best else [])]
        blocks, failures = self.time([one.kernel for one in participants], rounds)
        return by_kernel(blocks), {failure.kernel: failure for failure in failures}

    def _scale(self, blocks: Mapping[int, list[Block]]) -> float:
        """How much slower than usual the best so far was in these blocks.

        Dividing by it makes values of different batches comparable. The usual time is the median
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
        """Update the best, and unload candidates that are far behind it."""
        for loaded in entered:
            if loaded.time_ns < (self.best.time_ns if self.best else float("inf")):
                self.best = loaded
        for loaded in entered:
            if self.best and loaded.time_ns > self.best.time_ns * self.limits.near_ratio:
                self._timing.session.unload(loaded.kernel)

    def _record(self, blocks: Sequence[Block]) -> None:
        first = self._block_number + 1
        self._block_number += len(blocks)
        self._buffer.measure(
            [
                self._kernels[block.kernel].measurement(self._timing, block, number)
                for number, block in enumerate(blocks, first)
            ]
        )

    def _failed(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        self.failures[candidate.solver] = status, reason
        self.failed.add(candidate.key)
        return Trial(candidate.config, status, reason=reason)

    def _drop(self, loaded: LoadedCandidate, status: Status, reason: str) -> None:
        self._failed(loaded.candidate, status, reason)
        self.loaded.pop(loaded.candidate.key, None)
        if loaded is self.best:
            others = self.loaded.values()
            self.best = min(others, key=lambda one: one.time_ns, default=None)
