"""The numbers of the study engine, in one object: budgets, margins, patience.

`TuneOptions(limits=replace(Limits(), finalists=8))` sets some of them; a table ``[limits]`` in the
settings file sets those that are a user's to set, and ``skipjack limits`` lists them all.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any

from skipjack.errors import UsageError
from skipjack.operations import MEMORY_SHARE

USER, MEASURED = "user", "measured"


def _limit(default: Any, meaning: str, *, user: bool = False, measured: str = "") -> Any:
    """A limit and its sentence; whether it is a user's to set; the script that measured it."""
    return field(default=default, metadata={"meaning": meaning, USER: user, MEASURED: measured})


@dataclass(frozen=True, slots=True)
class Limits:
    """Units are in the names; ratios and shares have none."""

    # budgets
    tune_seconds: float = _limit(5.0, "A tuning without a budget takes so long.", user=True)
    find_seconds: float = _limit(
        10.0, "A find without a budget takes so long, for all solvers together.", user=True
    )
    finish_share: float = _limit(
        0.12,
        "So much of a budget in seconds is kept for the final and the confirmation.",
        user=True,
    )
    finish_at_least_s: float = _limit(0.25, "And so much at least.", user=True)
    search_share: float = _limit(
        0.3, "So much of a budget is searched, however long the final will take.", user=True
    )
    preparing_share: float = _limit(
        0.4,
        "Filling arrays, computing references and importing libraries takes at most so much of it.",
        user=True,
    )
    overdue_ratio: float = _limit(
        3.0, "After so many times its seconds a find waits for no solver any more."
    )
    overdue_s: float = _limit(30.0, "And after so long at least.")
    # who is asked
    fewest_trials: int = _limit(
        4, "A tuning makes so many trials although there is little time for a final.", user=True
    )
    fewest_find_trials: int = _limit(
        2, "A find makes so many new trials although calls are long.", user=True
    )
    turn_configs: int = _limit(2, "A solver asks for so many configs before another one may.")
    opening_trials: int = _limit(
        4, "A solver behind the first gets so many trials before anything is known of it."
    )
    solver_sharpness: int = _limit(
        8, "The exponent of shares: twice as slow gets a 256th of the trials of the best."
    )
    least_solver_share: float = _limit(1e-3, "The share of a solver that is far behind.")
    hopeless_solver_ratio: float = _limit(
        3.0, "A find asks solvers that are so many times slower than the best no further."
    )
    retimed_leaders: int = _limit(3, "So many leaders of earlier runs are timed again.")
    nearest_winners: int = _limit(
        4,
        "A search starts at the winners of so many near problems.",
        measured="bench/start_well.py",
    )
    promising_configs: int = _limit(
        16, "And at so many configs that promise well.", measured="bench/start_well.py"
    )
    # timing
    batch_candidates: int = _limit(6, "So many candidates are timed side by side.")
    slow_ns: float = _limit(
        2e7, "A sample this long has averaged out most noise: few are taken, few side by side."
    )
    long_ns: float = _limit(
        1e8, "Where a single call takes longer, those far behind are not called a second time."
    )
    prune_ratio: float = _limit(
        1.25, "A candidate so much slower than the best after its first block gets no second one."
    )
    most_drift: float = _limit(1.5, "Values of two batches are scaled by no more than that.")
    far_ratio: float = _limit(2.0, "So many times slower than the fastest is far behind.")
    patience_ratio: float = _limit(
        20.0, "In a find, a call that takes so many times the fastest one's time is ended."
    )
    # the final
    finalists: int = _limit(6, "So many of the fastest are timed again in the final.", user=True)
    slow_finalists: int = _limit(2, "Where they are slow, so many.", user=True)
    final_blocks: int = _limit(4, "Each of them gets so many blocks.", user=True)
    slow_final_blocks: int = _limit(2, "Where they are slow, so many.", user=True)
    final_calls: int = _limit(40, "A tuning's final and confirmation take so many calls at least.")
    find_rounds: int = _limit(
        11, "Rounds of a find's final after the first, if they are affordable."
    )
    deciding_rounds: int = _limit(24, "Further rounds for those that may be ties.")
    find_stage_s: float = _limit(2.0, "Each of these two stages takes about so long at most.")
    find_stage_share: float = _limit(0.25, "And so much of a budget in seconds.")
    find_final_rounds: int = _limit(16, "About how many rounds a find's final takes.")
    find_final_calls: int = _limit(40, "And how many calls of the best its confirmation takes.")
    long_find_final_rounds: int = _limit(3, "The same where calls are long.")
    long_find_final_calls: int = _limit(16, "The same where calls are long.")
    block_ns: float = _limit(4e5, "A block takes so long at least.")
    block_calls: int = _limit(6, "A block of short calls has about so many samples.")
    single_call_ns: float = _limit(2e6, "From this time on a block is a single call.")
    near_ratio: float = _limit(1.25, "In a find's final, slower ones win no more.")
    lost_ratio: float = _limit(
        1.25, "One call says that a rival loses that is so much slower than a winner above 1 s."
    )
    surely_lost_ratio: float = _limit(2.0, "The same of a faster winner.")
    too_far_ratio: float = _limit(
        4.0, "Long calls so many times slower than the fastest are not repeated."
    )
    # the decision
    least_tie: float = _limit(0.005, "Times that differ by less are ties.")
    widest_tie: float = _limit(0.02, "Times that differ by more are none, however noisy they are.")
    widest_paired_tie: float = _limit(0.05, "The same of times in pairs.")
    clearly_behind_ratio: float = _limit(
        1.25, "So much slower than the first is behind it also if few rounds say so."
    )
    far_behind_ratio: float = _limit(10.0, "And so much slower if none does.")
    far_library_ratio: float = _limit(
        2.0, "A library that takes so many times as long is slower, however noisy its time is."
    )
    beside_pairs: int = _limit(10, "Gains that decide nothing are from so many pairs of blocks.")
    long_call_ns: float = _limit(
        1e6,
        "Of longer calls, what Python adds is less than noise: no gain as called is measured.",
        measured="bench/calls.py",
    )
    memory_share: float = _limit(
        MEMORY_SHARE,
        "A problem whose arrays need more of the device's memory is refused.",
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

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Limits:
        """With those that a user has set; `UsageError` for others."""
        own = [one.name for one in fields(cls) if one.metadata[USER]]
        for name in given:
            if name not in own:
                close = difflib.get_close_matches(name, own, 1)
                hint = f"did you mean {close[0]}?" if close else "see `skipjack limits`"
                raise UsageError(f"config.toml: limit {name!r} cannot be set; {hint}")
        return cls(**given)  # type: ignore[arg-type]

    def records(self) -> list[dict[str, Any]]:
        """All in JSON: name, value, sentence, whether a user may set it, what measured it."""
        return [
            {
                "name": one.name,
                "value": getattr(self, one.name),
                "meaning": one.metadata["meaning"],
                "settable": one.metadata[USER],
                "measured_by": one.metadata[MEASURED],
            }
            for one in fields(self)
        ]


LIMITS = Limits()
"""Where nobody has set any."""
