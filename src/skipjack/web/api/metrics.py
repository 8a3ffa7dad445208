"""Metrics for Prometheus, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import skipjack
from skipjack.app.views import (
    TableRequest,
    Workspace,
    label_table,
    machines_page,
    programs_page,
)
from skipjack.fleet.model import JobState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ALL = TableRequest(whole=True)
_PREFIX = "skipjack_"

Sample = tuple[Mapping[str, str], float]


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric with its values."""

    name: str
    kind: str
    """gauge or counter."""
    text: str
    samples: Iterable[Sample]


def metrics_text(workspace: Workspace) -> str:
    """All metrics of what there is."""
    lines: list[str] = []
    for family in _families(workspace):
        name = f"{_PREFIX}{family.name}"
        lines += [f"# HELP {name} {_plain(family.text)}", f"# TYPE {name} {family.kind}"]
        lines += [f"{name}{_labels(labels)} {value:.17g}" for labels, value in family.samples]
    return "\n".join([*lines, ""])


def _families(workspace: Workspace) -> Iterator[MetricFamily]:
    version = {"version": skipjack.__version__}
    yield MetricFamily("info", "gauge", "The version that serves this.", [(version, 1.0)])
    present = [({"source": one.name}, float(one.present)) for one in workspace.sources()]
    yield MetricFamily("source_present", "gauge", "Whether a source can be read.", present)
    if workspace.has_store:
        yield from _fleet(workspace)
    yield from _programs(workspace)


def _fleet(workspace: Workspace) -> Iterator[MetricFamily]:
    labels = label_table(workspace, _ALL).rows
    yield MetricFamily(
        "jobs",
        "gauge",
        "Jobs by label and state.",
        [
            ({"label": one.name, "state": str(state)}, float(one.by_state.get(str(state), 0)))
            for one in labels
            for state in JobState
        ],
    )
    machines = machines_page(workspace, _ALL).machines.rows
    states = Counter(one.state for one in machines)
    yield MetricFamily(
        "machines",
        "gauge",
        "Machines by state.",
        [({"state": state}, float(count)) for state, count in sorted(states.items())],
    )
    alive = sum(one.state in ("working", "idle") for one in machines)
    yield MetricFamily(
        "machines_alive", "gauge", "Machines that get jobs and were seen.", [({}, float(alive))]
    )
    totals = workspace.store.browsing.label_totals()
    yield MetricFamily(
        "device_seconds_total",
        "counter",
        "Device time of evaluations, by label.",
        [({"label": one.label}, one.device_seconds) for one in totals],
    )
    yield MetricFamily(
        "trials",
        "gauge",
        "Trials of jobs by label and outcome, since they were last reset.",
        [
            ({"label": one.label, "outcome": outcome}, float(count))
            for one in totals
            for outcome, count in (
                ("ok", one.trials - one.failed_trials),
                ("failed", one.failed_trials),
            )
        ],
    )


def _programs(workspace: Workspace) -> Iterator[MetricFamily]:
    page = programs_page(workspace, _ALL, _ALL)
    programs = page.programs.rows
    yield MetricFamily(
        "program_operations",
        "gauge",
        "Operations of programs with a result file: answered by a bank, tuned, or neither.",
        [
            ({"outcome": "hit"}, float(sum(one.hits for one in programs))),
            ({"outcome": "tuned"}, float(sum(one.tuned for one in programs))),
            ({"outcome": "all"}, float(sum(one.operations for one in programs))),
        ],
    )
    saved = sum(one.saved_us for one in programs) / 1e6
    yield MetricFamily(
        "program_saved_seconds", "gauge", "Time that tuned calls saved.", [({}, saved)]
    )
    yield MetricFamily(
        "missed_problems", "gauge", "Problems that no bank knew.", [({}, float(page.misses.total))]
    )
    lookups = float(sum(one.lookups for one in page.misses.rows))
    yield MetricFamily(
        "missed_lookups", "gauge", "Lookups of problems that no bank knew.", [({}, lookups)]
    )


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(text)}"' for name, text in labels.items()) + "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return escaped.encode("utf-8", "replace").decode()


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
