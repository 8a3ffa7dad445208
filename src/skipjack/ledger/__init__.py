"""Every candidate, build and measurement, in one SQLite file that merges with others."""

from skipjack.ledger.collecting import Collected
from skipjack.ledger.connection import FILE_NAME, fold_in
from skipjack.ledger.facts import UNION_TABLES, Facts, read_facts, write_facts
from skipjack.ledger.ledger import Ledger
from skipjack.ledger.merge import Merged
from skipjack.ledger.metrics import MetricSamples, single, unit_of
from skipjack.ledger.migrations import columns_of
from skipjack.ledger.records import (
    OUTCOME,
    BankedConfig,
    BuildRecord,
    CandidateKey,
    LogEntry,
    MarkKind,
    MarkRecord,
    MeasurementRecord,
    StudyRecord,
    Summary,
    VerdictRecord,
    verdict_word,
)

__all__ = [
    "FILE_NAME",
    "OUTCOME",
    "UNION_TABLES",
    "BankedConfig",
    "BuildRecord",
    "CandidateKey",
    "Collected",
    "Facts",
    "Ledger",
    "LogEntry",
    "MarkKind",
    "MarkRecord",
    "MeasurementRecord",
    "Merged",
    "MetricSamples",
    "StudyRecord",
    "Summary",
    "VerdictRecord",
    "columns_of",
    "fold_in",
    "read_facts",
    "single",
    "unit_of",
    "verdict_word",
    "write_facts",
]
