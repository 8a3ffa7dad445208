"""What a sweep would do, for people."""

from __future__ import annotations

from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.numbers import duration_text
from skipjack.sweep.foreseeing import Foreseen

_SHOWN = 12
"""Points of a long plan: so many from its beginning, and the last one."""


def print_plan(seen: Foreseen) -> None:
    """Points in order, builds, and what it may cost."""
    out = screen.out()
    plan = seen.plan
    refused = f", {len(plan.refused)} forbidden by the file" if plan.refused else ""
    what = "points so far" if seen.open_end else "points"
    out.print(f"{seen.name}: {plan.product} {what}{refused}; {plan.runs} to run", markup=False)
    for number, point in enumerate(plan.points, start=1):
        if _SHOWN < number < plan.runs:
            if number == _SHOWN + 1:
                out.print(f"  ... {plan.runs - _SHOWN - 1} more")
            continue
        out.print(f"  {number}. {point or 'the base config itself'}", markup=False)
    kept = f" ({plan.rebuilds} if only the last were kept)" if plan.rebuilds > plan.builds else ""
    out.print(f"builds: {plan.builds}{kept}")
    each = f" of {seen.repeats} runs each" if seen.repeats > 1 else ""
    out.print(f"points to run: {plan.runs - seen.known}{each}, {seen.known} are known")
    out.print(f"confirming: up to {numbered(seen.extra, 'more run')}")
    if seen.at_most is not None:
        out.print(f"The search makes at most {numbered(seen.at_most, 'run')}.")
    out.print(f"cost: {_cost(seen)}")
    if seen.simulated:
        out.print("These points are from the file's synthetic results.")
    elif seen.open_end:
        out.print("What follows depends on results.")


def _cost(seen: Foreseen) -> str:
    if seen.seconds is None:
        return "not known before the first run"
    if not seen.seconds:
        return "nothing, all of it is known"
    return f"about {duration_text(seen.seconds)}"
