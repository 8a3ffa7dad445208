"""The limits of the study engine in one object: budgets, margins, timeouts.

`TuneOptions(limits=replace(Limits(), finalists=8))` sets some of them; a table ``[limits]`` in the
settings file sets those that users may set, and ``skipjack limits`` lists them all.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any

from skipjack.errors import UsageError
from skipjack.execute import ALPHA, LOOKS, MIN_EFFECT
from skipjack.operations import MEMORY_SHARE
from skipjack.settings import CONFIG_FILE, Settings

USER, MEASURED = "user", "measured"
MOST_COUNT, DAY_S = 10_000, 86_400
"""Larger counts, and longer times in seconds, are mistakes: a search would not end."""


def _limit(default: Any, meaning: str, *, user: bool = False, measured: str = "") -> Any:
    """A limit and its description; whether users may set it; the script that measured it."""
    return field(default=default, metadata={"meaning": meaning, USER: user, MEASURED: measured})


@dataclass(frozen=True, slots=True)
class Limits:
    """Units are in the names; ratios and shares have none."""

    # budgets
    tune_seconds: float = _limit(
        5.0, "Budget in seconds of a tuning for which none is given.", user=True
    )
    find_seconds: float = _limit(
        10.0,
        "Budget in seconds of a find for which none is given, for all solvers together.",
        user=True,
    )
    finish_share: float = _limit(
        0.12,
        "Share of a budget in seconds that is reserved for the final and the confirmation.",
        user=True,
    )
    finish_at_least_s: float = _limit(
        0.25, "Least time that is reserved for the final and the confirmation.", user=True
    )
    search_share: float = _limit(
        0.3,
        "Least share of a budget that is spent on the search, however long the final will take.",
        user=True,
    )
    preparing_share: float = _limit(
        0.4,
        "Largest share of a budget that is charged for filling arrays, computing references and "
        "importing libraries.",
        user=True,
    )
    overdue_ratio: float = _limit(
        3.0, "A find stops waiting for untried solvers after this multiple of its budget."
    )
    overdue_s: float = _limit(30.0, "A find waits at least this long for untried solvers.")
    # which solver is asked
    fewest_trials: int = _limit(
        4,
        "Least number of trials of a tuning, even if little time is left for its final.",
        user=True,
    )
    fewest_find_trials: int = _limit(
        2, "Least number of new trials of a find, even if calls are long.", user=True
    )
    turn_configs: int = _limit(
        2, "Configs that a solver may propose before it is another solver's turn."
    )
    opening_trials: int = _limit(
        4, "Trials that a solver gets before its results determine its share of the budget."
    )
    solver_sharpness: int = _limit(
        8,
        "Exponent that turns relative speed into a share of trials: with 8, half the speed gets "
        "1/256.",
    )
    least_solver_share: float = _limit(
        1e-3,
        "Least share of trials that a solver far behind gets, relative to the best solver.",
    )
    hopeless_solver_ratio: float = _limit(
        3.0,
        "A find tries no more configs of a solver that is this many times slower than the best.",
    )
    retimed_leaders: int = _limit(
        3, "Leaders of earlier runs that are timed again before a search."
    )
    nearest_winners: int = _limit(
        4,
        "A search starts at the winners of this many of the nearest problems.",
        measured="bench/start_well.py",
    )
    prior_trials: int = _limit(
        1000, "A model knows at most so many trials of near problems and on related devices."
    )
    promising_configs: int = _limit(
        16,
        "A search starts at this many configs that its space considers promising.",
        measured="bench/start_well.py",
    )
    # timing
    batch_candidates: int = _limit(6, "Candidates that are timed side by side.")
    slow_ns: float = _limit(
        2e7,
        "Calls that take longer than this are slow: they need few samples and are timed one "
        "at a time.",
    )
    long_ns: float = _limit(
        1e8,
        "Calls that take longer than this are long: a find calls candidates far behind only once.",
    )
    very_long_ns: float = _limit(
        1e9,
        "If the winner of a find takes longer than this, one long call rules out a competitor that "
        "is `near_ratio` times slower; else `far_ratio` is needed.",
    )
    near_ratio: float = _limit(
        1.25,
        "A candidate this many times slower than the fastest is behind: it gets no second block "
        "in a search and no more rounds in a find's final, and is ranked behind even if few "
        "rounds were undisturbed.",
    )
    far_ratio: float = _limit(
        2.0,
        "A candidate this many times slower than the fastest is far behind: one long call of it "
        "is enough, and a library has lost however noisy its time is.",
    )
    most_drift: float = _limit(
        1.5, "Times of two batches are scaled by at most this factor to make them comparable."
    )
    patience_ratio: float = _limit(
        20.0, "In a find, a call that takes this many times the fastest one's time is ended."
    )
    most_kernels: int = _limit(
        1000, "A timer of configs restarts its session after this many kernels, to free them."
    )
    # the final
    finalists: int = _limit(
        6, "Finalists: the fastest candidates, which a tuning times again in its final.", user=True
    )
    slow_finalists: int = _limit(2, "Finalists when calls are slower than `slow_ns`.", user=True)
    final_blocks: int = _limit(4, "Blocks per finalist.", user=True)
    slow_final_blocks: int = _limit(
        2, "Blocks per finalist when calls are slower than `slow_ns`.", user=True
    )
    final_calls: int = _limit(
        40, "Calls of the best for which time is reserved for the final and the confirmation."
    )
    find_rounds: int = _limit(
        11, "Rounds of a find's final after the first, if they are affordable."
    )
    deciding_rounds: int = _limit(
        24,
        "Further rounds of a find's final for candidates that may be ties, if they are affordable.",
    )
    find_stage_s: float = _limit(
        2.0, "Longest time that each stage after the first round of a find's final takes, roughly."
    )
    find_stage_share: float = _limit(
        0.25,
        "Largest share of a budget in seconds that each stage after the first round of a find's "
        "final takes.",
    )
    find_final_rounds: int = _limit(16, "Rounds for which a find reserves time for its final.")
    long_find_final_rounds: int = _limit(
        3, "Rounds for which a find reserves time when calls are longer than `long_ns`."
    )
    long_find_final_calls: int = _limit(
        16, "Calls of the best for which a find reserves time when they are longer than `long_ns`."
    )
    block_ns: float = _limit(
        4e5, "Least duration of a block in the estimate of what a round of a find's final costs."
    )
    block_calls: int = _limit(
        6, "Calls per block of short calls in the estimate of what a round of a find's final costs."
    )
    single_call_ns: float = _limit(
        2e6,
        "Calls at least this long count as blocks of one call in the estimate of a round's cost.",
    )
    too_far_ratio: float = _limit(
        4.0, "Long calls that take this many times the fastest one's time are not repeated."
    )
    # the decision
    least_tie: float = _limit(0.005, "Times that differ by less than this share are ties.")
    widest_tie: float = _limit(
        0.02, "Times that differ by more than this share are never ties, however noisy."
    )
    widest_paired_tie: float = _limit(
        0.05, "Times measured in pairs that differ by more than this share are never ties."
    )
    far_behind_ratio: float = _limit(
        10.0,
        "A candidate this many times slower than the first is behind even if no round was "
        "undisturbed.",
    )
    beside_pairs: int = _limit(
        10, "Pairs of blocks for a gain that is reported but decides nothing."
    )
    long_call_ns: float = _limit(
        1e6,
        "For calls longer than this no gain as called from Python is measured: Python adds "
        "less than noise.",
        measured="bench/calls.py",
    )
    much_gib: float = _limit(
        4.0, "Arrays that need more than this take seconds to fill and check, which is reported."
    )
    memory_share: float = _limit(
        MEMORY_SHARE,
        "A problem whose arrays need more than this share of the device's memory is refused.",
        user=True,
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            whole = one.type == "int"
            right = isinstance(value, int if whole else (int, float)) and value == value
            if isinstance(value, bool) or not right or value <= 0 or not isfinite(value):
                kind = "a whole number" if whole else "a number"
                raise UsageError(f"limit {one.name} is {value!r}; give {kind} above 0")
            if one.name.endswith("_share") and value > 1:
                raise UsageError(f"limit {one.name} is {value!r}; give a share between 0 and 1")
            timed = one.name.endswith(("_s", "_seconds"))
            if (whole and value > MOST_COUNT) or (timed and value > DAY_S):
                most = MOST_COUNT if whole else DAY_S
                raise UsageError(f"limit {one.name} is {value!r}; give at most {most:,}")

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """The defaults with the user's settings; `UsageError` for a limit that cannot be set."""
        file = settings.user_dir / CONFIG_FILE
        own = [one.name for one in fields(cls) if one.metadata[USER]]
        for name in settings.limits:
            if name not in own:
                close = difflib.get_close_matches(name, own, 1)
                hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(own)}"
                raise UsageError(f"{file}: limit {name!r} cannot be set; {hint}")
        try:
            return cls(**settings.limits)  # type: ignore[arg-type]
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None

    def records(self) -> list[dict[str, Any]]:
        """All limits for JSON: name, value, description, whether users may set it, its script."""
        own = [
            {
                "name": one.name,
                "value": getattr(self, one.name),
                "meaning": one.metadata["meaning"],
                "settable": one.metadata[USER],
                "measured_by": one.metadata[MEASURED],
            }
            for one in fields(self)
        ]
        fixed = [
            {"name": name, "value": value, "meaning": text, "settable": False, "measured_by": ""}
            for name, value, text in _OF_CONFIRMATIONS
        ]
        return [*own, *fixed]


_OF_CONFIRMATIONS = (
    ("alpha", ALPHA, "Largest probability that a confirmation is wrong."),
    ("min_effect", MIN_EFFECT, "Least gain, as a share, that a confirmation has to show."),
    ("confirm_pairs", LOOKS[-1], "Most undisturbed pairs of blocks in a confirmation."),
)
"""The parameters of the test of a winner (`skipjack.execute.confirmation`), which cannot be set."""

LIMITS = Limits()
