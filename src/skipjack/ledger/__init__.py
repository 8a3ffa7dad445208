"""Every candidate, build and measurement, in one SQLite file that merges with others."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.ledger.browsing import (
        PROBLEM_ORDERS,
        CommandRuns,
        FailedBuilds,
        LedgerBrowser,
        LedgerCounts,
        LedgerProblem,
        LedgerStudy,
    )
    from skipjack.ledger.connection import FILE_NAME, checkpoint
    from skipjack.ledger.ledger import Ledger
    from skipjack.ledger.migrations import columns_of
    from skipjack.ledger.records import (
        LASTING,
        OUTCOME,
        BankedConfig,
        BuildRecord,
        CandidateKey,
        DecisionRecord,
        LogEntry,
        MarkKind,
        MarkRecord,
        MeasurementRecord,
        MetricSamples,
        RelatedStudy,
        StudyRecord,
        Summary,
        decision_word,
        single,
        unit_of,
    )
    from skipjack.ledger.studies import Collected
    from skipjack.ledger.union import (
        BUILD_TABLES,
        UNION_TABLES,
        Facts,
        Merged,
        read_facts,
        write_facts,
    )

__all__ = [
    "BUILD_TABLES",
    "FILE_NAME",
    "LASTING",
    "OUTCOME",
    "PROBLEM_ORDERS",
    "UNION_TABLES",
    "BankedConfig",
    "BuildRecord",
    "CandidateKey",
    "Collected",
    "CommandRuns",
    "DecisionRecord",
    "Facts",
    "FailedBuilds",
    "Ledger",
    "LedgerBrowser",
    "LedgerCounts",
    "LedgerProblem",
    "LedgerStudy",
    "LogEntry",
    "MarkKind",
    "MarkRecord",
    "MeasurementRecord",
    "Merged",
    "MetricSamples",
    "RelatedStudy",
    "StudyRecord",
    "Summary",
    "checkpoint",
    "columns_of",
    "decision_word",
    "read_facts",
    "single",
    "unit_of",
    "write_facts",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "browsing": (
            "CommandRuns FailedBuilds LedgerBrowser LedgerCounts LedgerProblem LedgerStudy "
            "PROBLEM_ORDERS"
        ),
        "connection": "FILE_NAME checkpoint",
        "ledger": "Ledger",
        "migrations": "columns_of",
        "records": (
            "BankedConfig BuildRecord CandidateKey DecisionRecord LASTING LogEntry MarkKind "
            "MarkRecord MeasurementRecord MetricSamples OUTCOME RelatedStudy StudyRecord Summary "
            "decision_word single unit_of"
        ),
        "studies": "Collected",
        "union": "BUILD_TABLES Facts Merged UNION_TABLES read_facts write_facts",
    },
)
