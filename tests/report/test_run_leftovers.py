"""What a run left undone, in one sentence that says what to do."""

import pytest

from skipjack.app import RunPhase, RunResult
from skipjack.fleet.model import JobKind, JobState
from skipjack.fleet.run import RunRequest, RunSummary
from skipjack.report.fleet import leftovers


@pytest.mark.parametrize(
    ("disabled", "advice"),
    [
        ((), "skipjack resume --machine NAME enables them"),
        (
            ("b", "elsewhere"),
            "skipjack machine enable b and skipjack resume --machine NAME enable them",
        ),
        (("a", "b"), "skipjack machine enable a b enables them"),
    ],
)
def test_idle_machines_are_helped_by_what_works(disabled: tuple[str, ...], advice: str) -> None:
    idle = ("a (aborted)", "b (new fans)")
    summary = RunSummary({JobState.NEW: 1}, {}, 0, 1.0, False, idle)
    phases = (RunPhase(JobKind.TUNE, summary),)
    said = leftovers(RunResult(RunRequest("L"), phases, disabled=disabled))
    assert said.startswith(f"these machines get no jobs: a (aborted), b (new fans); {advice}")
