"""Results per watt: a run's numbers beside what the power meter logged meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skipjack.core.trial import Status
from skipjack.errors import UsageError
from skipjack.interop.loadgen_log import LoadgenLog
from skipjack.interop.power_log import average_watts, efficiency, read_power_log
from skipjack.sweep.outcome import Outcome


def with_power(outcome: Outcome, log: LoadgenLog | None, power_log: Path) -> Outcome:
    """The outcome with ``power_w`` and results per watt; a note where they cannot be had."""
    if log is None:
        return _noting(outcome, "there is no LoadGen log that says when to look at the power")
    begin, end = log.values.get("power_begin"), log.values.get("power_end")
    if begin is None or end is None:
        return _noting(outcome, "the LoadGen log does not say when power counts")
    try:
        samples = read_power_log(power_log)
        watts = average_watts(samples, str(begin), str(end))
        if watts is None:
            return _noting(outcome, f"{power_log} has no samples between {begin} and {end}")
        metrics = {**outcome.metrics, "power_w": watts}
        if outcome.status is Status.OK:
            metrics |= efficiency(outcome.metrics, watts, log.scenario)
    except (UsageError, ValueError) as error:
        return _noting(outcome, str(error))
    return replace(outcome, metrics=metrics, notes=(*outcome.notes, *samples.remarks()))


def _noting(outcome: Outcome, note: str) -> Outcome:
    return replace(outcome, notes=(*outcome.notes, f"no power: {note}"))
