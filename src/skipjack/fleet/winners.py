"""Who won, as far as results of jobs say: a ranking speaks before the verdicts of tunings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from skipjack.bank import BASELINE
from skipjack.bank.evidence import claim, lower_bound
from skipjack.fleet.records import JobKind, Known

_MOST = 2
"""Configs of one solver that are worth another look."""

Result = tuple[JobKind, Mapping[str, Any]]
"""The kind of a job, and what came of it."""


def winner_of(results: Sequence[Result]) -> Known | None:
    """What to ship: the best that was built, of a ranking if there is one, else of the tunings.

    Results come newest first: of several rankings the first counts.
    """
    rankings = [_built(result) for kind, result in results if kind is JobKind.FIND]
    for verdict in rankings:
        if verdict is not None:
            return known_of(verdict)
    tuned = [
        result
        for kind, result in results
        if kind is JobKind.TUNE and result.get("code") and result.get("time_ns")
    ]
    if not tuned:
        return None
    return known_of(max(tuned, key=_strength))


def worth_trying(results: Iterable[Result]) -> tuple[Known, ...]:
    """The best configs of every solver, those of the results that come first before others."""
    counts: dict[str, int] = {}
    found: dict[tuple[str, str], Known] = {}
    for known in (one for result in results for one in _configs(result)):
        key = known.solver, repr(sorted(known.config.items()))
        if key not in found and counts.get(known.solver, 0) < _MOST:
            counts[known.solver] = counts.get(known.solver, 0) + 1
            found[key] = known
    return tuple(found.values())


def _configs(result: Result) -> Iterator[Known]:
    kind, record = result
    if kind is not JobKind.FIND:
        if record.get("solver") and record.get("time_ns"):
            yield known_of(record)
        return
    for row in record.get("solvers", ()):
        if row.get("status") == "ok" and row.get("config"):
            yield known_of(row)


def _built(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a ranking says of the fastest that was built; None if nothing was, or nothing ran."""
    verdict = result.get("verdict")
    return verdict if verdict and verdict.get("time_ns") else None


def known_of(record: Mapping[str, Any]) -> Known:
    """The solver and the config of a verdict, or of a place in a ranking."""
    version = record.get("solver_version")
    return Known(record["solver"], record["config"], None if version is None else int(version))


def same_kernel(one: Known, other: Known) -> bool:
    """Whether both are one solver with one config, whichever version of it found that."""
    return (one.solver, one.config) == (other.solver, other.config)


def _strength(result: Mapping[str, Any]) -> tuple[int, float]:
    """How sure it is that a tuning's result is fast, as the bank has it."""
    gains = result.get("speedups") or {}
    vendor, time_ns = str(result.get("vendor") or ""), float(result["time_ns"])
    over_library = None
    if vendor and result.get("vendor_ns"):
        one_call = {"ratio": float(result["vendor_ns"]) / time_ns}
        over_library = lower_bound(gains.get(vendor, one_call))
    over_default = lower_bound(gains.get("default")) if BASELINE in result else None
    return claim(over_library, over_default, time_ns)
