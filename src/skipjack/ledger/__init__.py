"""Every candidate, build and measurement, in one SQLite file that merges with others."""

from skipjack.ledger.ledger import Ledger
from skipjack.ledger.records import (
    BuildRecord,
    CandidateKey,
    LogEntry,
    MeasurementRecord,
    StudyRecord,
    Summary,
    VerdictRecord,
    Winner,
)

__all__ = [
    "BuildRecord",
    "CandidateKey",
    "Ledger",
    "LogEntry",
    "MeasurementRecord",
    "StudyRecord",
    "Summary",
    "VerdictRecord",
    "Winner",
]
