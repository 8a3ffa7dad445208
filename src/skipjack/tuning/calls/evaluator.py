"""The evaluator of the study engine for calls that this process makes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from skipjack.core import Candidate, Config, Device, Objective, Status, TimingProtocol, Trial
from skipjack.errors import SkipjackError
from skipjack.ledger import CandidateKey, Ledger, MeasurementRecord, MetricSamples
from skipjack.trace import Tracer
from skipjack.tuning.study import (
    BankAccess,
    CandidateTrial,
    Clock,
    LedgerBuffer,
    Limits,
    LoadedCandidate,
    LoadingSession,
    RacingEvaluator,
)

AHEAD = 32
"""Configs that are built at once."""


class CallsLostError(SkipjackError):
    """A call broke something that all calls of this process need; it can time nothing more."""

    def __init__(self, message: str, config: Config | None = None) -> None:
        super().__init__(message)
        self.config = config
        """The config that was called, if it is known."""


class CallSession(LoadingSession, Protocol):
    """Makes the calls. A config that fails is a trial with a status.

    Errors of the caller are raised, and `CallsLostError` if nothing can be called anymore.
    """

    def build(self, configs: Sequence[Config]) -> Mapping[Config, Trial]:
        """Compile all of these, in parallel if possible; returns the trials of those that fail."""

    def add(self, config: Config) -> int | Trial:
        """Make the first call with a config that was built; returns its number."""


@dataclass(slots=True)
class CallContext:
    """The environment of a study of calls. The caller closes the ledger."""

    session: CallSession
    device: Device
    protocol: TimingProtocol
    ledger: Ledger
    bank: BankAccess
    toolchain: str = ""
    """Name and version of the compiler."""
    clock: Clock = time.monotonic
    tracer: Tracer = field(default_factory=Tracer)
    id: str = field(default_factory=lambda: uuid4().hex[:12])


class CallEvaluator(RacingEvaluator):
    """Builds all submitted candidates at once, then times them batch by batch."""

    def __init__(
        self,
        context: CallContext,
        buffer: LedgerBuffer,
        limits: Limits,
        version: int,
        ahead: int = AHEAD,
    ) -> None:
        super().__init__(context, buffer, Objective(), limits)
        self._context, self._version = context, version
        self.ahead = ahead
        self._waiting: list[Candidate] = []
        self._built: deque[Candidate] = deque()
        self.reasons: dict[Config, str] = {}
        """Why configs failed, while they were built or later."""

    @property
    def pending(self) -> int:
        """Candidates that were submitted and not yet returned."""
        return len(self._waiting) + len(self._built)

    def submit(self, candidate: Candidate) -> None:
        """Accept a candidate; it is built when candidates are next collected."""
        self._waiting.append(candidate)

    def collect(self, wait_s: float) -> list[CandidateTrial]:
        """Time a batch of built candidates; those that do not build are returned first."""
        if not self._built and (failed := self._build()):
            return failed
        batch = [self._built.popleft() for _ in range(min(self._batch, len(self._built)))]
        told: list[CandidateTrial] = []
        entered: list[LoadedCandidate] = []
        for candidate in batch:
            if (known := self.loaded.get(candidate.key)) is not None:
                told.append((candidate, self._trial(known, known.time_ns)))
                continue
            added = self._added(candidate)
            if isinstance(added, Trial):
                told.append((candidate, self._refused(candidate, added)))
                continue
            compiler = self._context.toolchain
            self._kernels[added] = LoadedCandidate(
                candidate, added, self._version, compiler=compiler
            )
            entered.append(self._kernels[added])
        raced = [(loaded.candidate, trial) for loaded, trial in self._race(entered)]
        for candidate, trial in raced:
            if trial.status.failed:
                self._record_failure(candidate, trial)
        return [*told, *raced]

    def _added(self, candidate: Candidate) -> int | Trial:
        try:
            return self._context.session.add(candidate.config)
        except CallsLostError as error:
            self._record_failure(
                candidate, Trial(candidate.config, Status.CRASH, reason=str(error))
            )
            raise

    def withdraw(self) -> None:
        """Forget the candidates that were not returned."""
        self._waiting.clear()
        self._built.clear()

    @property
    def _batch(self) -> int:
        """How many are timed side by side; one if calls are slow, so that time limits hold."""
        slow = self.limits.slow_ns < self.pace_ns < float("inf")
        return 1 if slow else self.limits.batch_candidates

    def _build(self) -> list[CandidateTrial]:
        waiting, self._waiting = list(dict.fromkeys(self._waiting)), []
        with self._context.tracer.span(f"build {len(waiting)} configs", "build"):
            failed = self._context.session.build([one.config for one in waiting])
        self._built.extend(one for one in waiting if one.config not in failed)
        self.builds += len(self._built)
        return [
            (one, self._refused(one, failed[one.config])) for one in waiting if one.config in failed
        ]

    def _refused(self, candidate: Candidate, trial: Trial) -> Trial:
        self._record_failure(candidate, trial)
        return self._failed(candidate, trial.status, trial.reason)

    def _failed(self, candidate: Candidate, status: Status, reason: str) -> Trial:
        self.reasons[candidate.config] = reason
        return super()._failed(candidate, status, reason)

    def _record_failure(self, candidate: Candidate, trial: Trial) -> None:
        """Record a failure: a measurement without samples."""
        context = self._context
        self._block_number += 1
        record = MeasurementRecord(
            CandidateKey.of(candidate, self._version),
            None,
            context.device.instance_key,
            context.device.class_key,
            context.protocol.key,
            context.id,
            self._block_number,
            {"time_ns": MetricSamples("ns", ())},
            status=trial.status,
            reason=trial.reason,
        )
        self._buffer.measure([record])
