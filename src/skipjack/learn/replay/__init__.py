"""Recorded search spaces as devices: searchers are compared without hardware, in seconds."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.learn.replay.parallel import ReplayTask, run_replays
    from skipjack.learn.replay.run import SEEDS_OF_PRIOR, ReplayRun, run_replay
    from skipjack.learn.replay.score import (
        WITHIN,
        RandomBaseline,
        area,
        evaluations_until,
        log_ratios,
        performance_score,
    )
    from skipjack.learn.replay.sources import load_recording
    from skipjack.learn.replay.space import RecordedSpace
    from skipjack.learn.replay.summary import (
        Estimate,
        ScoredRuns,
        SearcherScore,
        summarize_recordings,
    )

__all__ = [
    "SEEDS_OF_PRIOR",
    "WITHIN",
    "Estimate",
    "RandomBaseline",
    "RecordedSpace",
    "ReplayRun",
    "ReplayTask",
    "ScoredRuns",
    "SearcherScore",
    "area",
    "evaluations_until",
    "load_recording",
    "log_ratios",
    "performance_score",
    "run_replay",
    "run_replays",
    "summarize_recordings",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "parallel": "ReplayTask run_replays",
        "run": "SEEDS_OF_PRIOR ReplayRun run_replay",
        "score": "RandomBaseline WITHIN area evaluations_until log_ratios performance_score",
        "sources": "load_recording",
        "space": "RecordedSpace",
        "summary": "Estimate ScoredRuns SearcherScore summarize_recordings",
    },
)
