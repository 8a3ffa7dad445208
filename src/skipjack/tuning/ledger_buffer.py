"""What happens in a study run, gathered and written to the ledger batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipjack.core.config import Config
from skipjack.core.trial import Trial
from skipjack.execute.statistics import Block
from skipjack.ledger import BuildRecord, CandidateKey, Ledger, MeasurementRecord, MetricSamples
from skipjack.trace import Tracer

if TYPE_CHECKING:
    from skipjack.tuning.context import TuningContext
    from skipjack.tuning.loaded_candidate import LoadedCandidate


class LedgerBuffer:
    """One transaction for each batch: a transaction for each record took longer than the search."""

    def __init__(self, ledger: Ledger, tracer: Tracer) -> None:
        self._ledger, self.tracer = ledger, tracer
        self._asks: list[tuple[str, Config]] = []
        self._tells: dict[str, list[Trial]] = {}
        self._builds: list[tuple[BuildRecord, tuple[CandidateKey, ...], str]] = []
        self._measurements: list[MeasurementRecord] = []

    def ask(self, study: str, config: Config) -> None:
        """A study's searcher asked for a config."""
        self._asks.append((study, config))

    def tell(self, study: str, trials: Sequence[Trial]) -> None:
        """A study's searcher was told of these."""
        self._tells.setdefault(study, []).extend(trials)

    def build(self, build: BuildRecord, *candidates: CandidateKey, identity: str) -> None:
        """Candidates of this identity were built."""
        self._builds.append((build, candidates, identity))

    def measure(self, records: Sequence[MeasurementRecord]) -> None:
        """Blocks were timed."""
        self._measurements += records

    def discard(self) -> None:
        """Forget everything that was not written down."""
        self._asks, self._tells, self._builds, self._measurements = [], {}, [], []

    def flush(self) -> None:
        """Write everything down."""
        with self.tracer.span("write", "ledger"), self._ledger.writing():
            for study, config in self._asks:
                self._ledger.log_ask(study, config)
            for build, candidates, identity in self._builds:
                self._ledger.add_build(build, *candidates, identity=identity)
            self._ledger.add_measurements(self._measurements)
            for study, trials in self._tells.items():
                self._ledger.log_tells(study, trials)
        self.discard()


def measurement(
    context: TuningContext, loaded: LoadedCandidate, block: Block, number: int
) -> MeasurementRecord:
    """What the ledger keeps of a block; `number` tells it from others of its context."""
    sentinel = block.sentinel_ns
    return MeasurementRecord(
        CandidateKey.of(loaded.candidate, loaded.version),
        loaded.source_digest,
        context.device.instance_key,
        context.device.class_key,
        context.protocol.key,
        context.id,
        number,
        {
            "time_ns": MetricSamples("ns", block.samples_ns),
            "calls": MetricSamples("1", (float(block.calls),)),
        },
        sum(sentinel) / len(sentinel) if sentinel else None,
        block.dropped + (len(block.samples_ns) if block.disturbed else 0),
    )
