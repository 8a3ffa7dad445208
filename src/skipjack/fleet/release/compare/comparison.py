"""Comparison of two sides, problem by problem.

Each problem is faster, equal or slower beyond the uncertainty of both times; a summary has
geometric means, extremes and changed winners.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from skipjack.core import is_valid_time
from skipjack.errors import UsageError
from skipjack.fleet.release.compare.sides import Identity, Side
from skipjack.fleet.release.results import FoundProblem, RankedEntry

# Faster, equal or slower: the outcome of comparing two timings, and its uncertainty.
#
# Times of two sessions differ by more than the kernels do. So a difference counts only if it
# exceeds both spreads together and a minimum effect; a smaller difference counts as equal.


class ComparisonOutcome(StrEnum):
    """How the new winner of a problem compares with that of the baseline."""

    FASTER = "faster"
    EQUAL = "equal"
    SLOWER = "slower"
    ADDED = "added"  # the baseline has no result
    MISSING = "missing"  # the baseline has a result, the new side has none
    NEITHER = "neither"  # both sides failed
    IMPOSSIBLE = "impossible"  # a time is zero, negative or not a number
    UNRELATED = "unrelated"  # a side has no time of the reference solver

    @property
    def compared(self) -> bool:
        """Whether there are two times to compare."""
        return self in (ComparisonOutcome.FASTER, ComparisonOutcome.EQUAL, ComparisonOutcome.SLOWER)


@dataclass(frozen=True, slots=True)
class Margin:
    """The difference that counts as significant."""

    min_effect: float = 0.01
    assumed_spread: float = 0.03
    """The spread of times without a recorded spread, such as those in MIOpen's files."""


@dataclass(frozen=True, slots=True)
class WinnerTiming:
    """The winner of one side."""

    solver: str
    time_ns: float
    spread: float | None = None
    """Relative to the time; None if unknown."""
    samples: int = 0
    reference_ns: float | None = None
    """The time of the reference solver on the same side."""
    reference_spread: float | None = None

    @property
    def possible(self) -> bool:
        """Whether the times are positive and finite."""
        return is_valid_time(self.time_ns) and (
            self.reference_ns is None or is_valid_time(self.reference_ns)
        )

    @property
    def value(self) -> float:
        """The compared value: the time, or its ratio to the reference time."""
        return self.time_ns / self.reference_ns if self.reference_ns else self.time_ns

    def doubt(self, margin: Margin) -> float:
        """The relative uncertainty of the value."""
        own = _known_spread(self.spread, margin)
        if self.reference_ns is None:
            return own
        return math.hypot(own, _known_spread(self.reference_spread, margin))


@dataclass(frozen=True, slots=True)
class ProblemComparison:
    """One problem on both sides."""

    problem: str
    find_key: str | None
    device: str
    verdict: ComparisonOutcome
    new: WinnerTiming | None = None
    old: WinnerTiming | None = None
    gain: float | None = None
    """The speedup over the baseline; None if it was not compared."""
    doubt: float = 0.0
    """The relative uncertainty of the gain."""
    reason: str = ""
    """The reason why a side has no result, or why it does not count."""

    @property
    def name(self) -> str:
        """The name of the problem in messages."""
        return self.problem or self.find_key or ""

    @property
    def winner_changed(self) -> bool:
        """Whether the winners of both sides differ."""
        return bool(self.new and self.old and self.new.solver != self.old.solver)

    @property
    def low(self) -> float:
        """The lower bound of the gain."""
        return (self.gain or math.nan) / (1 + self.doubt)

    @property
    def high(self) -> float:
        """The upper bound of the gain."""
        return (self.gain or math.nan) * (1 + self.doubt)

    @property
    def sure_slowdown(self) -> float:
        """The minimum slowdown as a share; 0 if the problem may not be slower."""
        return max(0.0, 1 / self.high - 1) if self.verdict is ComparisonOutcome.SLOWER else 0.0


@dataclass(frozen=True, slots=True)
class ComparedProblem:
    """The problem and device of a comparison."""

    problem: str
    find_key: str | None
    device: str


def compare_timings(
    subject: ComparedProblem,
    new: WinnerTiming,
    old: WinnerTiming,
    margin: Margin,
    *,
    relative: bool = False,
) -> ProblemComparison:
    """Compare the winners of both sides; with `relative`, by their ratios to the reference."""
    about = (subject.problem, subject.find_key, subject.device)
    for timing, side in ((new, "new"), (old, "baseline's")):
        if not timing.possible:
            why = f"the {side} time of {timing.solver} is {timing.time_ns:g} ns"
            return ProblemComparison(*about, ComparisonOutcome.IMPOSSIBLE, new, old, reason=why)
    if relative and None in (new.reference_ns, old.reference_ns):
        side = "new side" if new.reference_ns is None else "baseline"
        why = f"the {side} has no time of the reference solver"
        return ProblemComparison(*about, ComparisonOutcome.UNRELATED, new, old, reason=why)
    gain = old.value / new.value
    doubt = math.hypot(new.doubt(margin), old.doubt(margin))
    return ProblemComparison(*about, _outcome(gain, doubt, margin), new, old, gain, doubt)


def _outcome(gain: float, doubt: float, margin: Margin) -> ComparisonOutcome:
    limit = 1 + max(doubt, margin.min_effect)
    if gain > limit:
        return ComparisonOutcome.FASTER
    return ComparisonOutcome.SLOWER if gain < 1 / limit else ComparisonOutcome.EQUAL


def _known_spread(spread: float | None, margin: Margin) -> float:
    """The spread, or the assumed one if it is unknown; NaN means a single measurement."""
    if spread is None or not math.isfinite(spread) or spread < 0:
        return margin.assumed_spread
    return spread


# Comparison of two sides by problem: geometric means, extremes and changed winners.


@dataclass(frozen=True, slots=True)
class MeanGain:
    """A geometric mean of gains."""

    gain: float
    """1.0 without problems."""
    problems: int


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of a comparison."""

    margin: Margin = field(default_factory=Margin)
    relative_to: str = ""
    """A solver; times are compared as multiples of its time on the same side."""
    across_devices: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison of two sides."""

    new: Side
    old: Side
    options: CompareOptions
    problems: tuple[ProblemComparison, ...]
    """All problems, ordered by key."""
    devices: tuple[str, ...]
    """The devices that were compared."""
    left_out: tuple[str, ...] = ()
    """Devices that only one side has."""

    def count(self, verdict: ComparisonOutcome) -> int:
        """The number of problems with this outcome."""
        return sum(one.verdict is verdict for one in self.problems)

    def of(self, *verdicts: ComparisonOutcome) -> list[ProblemComparison]:
        """The problems with one of these outcomes."""
        return [one for one in self.problems if one.verdict in verdicts]

    @property
    def compared(self) -> list[ProblemComparison]:
        """The problems with times on both sides."""
        return [one for one in self.problems if one.verdict.compared]

    @property
    def mean(self) -> MeanGain:
        """The mean gain of all compared problems."""
        return mean_gain(self.compared)

    @property
    def mean_same(self) -> MeanGain:
        """The mean gain of problems with the same winner."""
        return mean_gain(one for one in self.compared if not one.winner_changed)

    @property
    def mean_changed(self) -> MeanGain:
        """The mean gain of problems whose winner changed."""
        return mean_gain(one for one in self.compared if one.winner_changed)

    def worst(self, count: int) -> list[ProblemComparison]:
        """The slower problems, the worst first."""
        return sorted(self.of(ComparisonOutcome.SLOWER), key=_gain)[:count]

    def best(self, count: int) -> list[ProblemComparison]:
        """The faster problems, the best first."""
        return sorted(self.of(ComparisonOutcome.FASTER), key=_gain, reverse=True)[:count]

    def changes(self) -> list[tuple[tuple[str, str], int]]:
        """Pairs of old and new winners with their counts, the most frequent first."""
        pairs = Counter(
            (one.old.solver, one.new.solver)
            for one in self.compared
            if one.new and one.old and one.winner_changed
        )
        return sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))

    def reasons(self) -> list[tuple[str, int]]:
        """Reasons why problems could not be compared, the most frequent first."""
        left = self.of(
            ComparisonOutcome.MISSING,
            ComparisonOutcome.ADDED,
            ComparisonOutcome.NEITHER,
            ComparisonOutcome.UNRELATED,
        )
        why = Counter(one.reason for one in left)
        return sorted(why.items(), key=lambda pair: (-pair[1], pair[0]))


def mean_gain(problems: Iterable[ProblemComparison]) -> MeanGain:
    """The geometric mean of the gains of problems."""
    logs = [math.log(one.gain) for one in problems if one.gain is not None]
    return MeanGain(math.exp(math.fsum(logs) / len(logs)) if logs else 1.0, len(logs))


def compare(new: Side, old: Side, options: CompareOptions | None = None) -> Comparison:
    """Compare every problem of either side, on the devices that both sides have."""
    options = options or CompareOptions()
    devices, left_out = _common_devices(new, old, options)
    rekey = _key_on_any_device if options.across_devices else _key_on_device
    here, there = _keyed_side(new, devices, rekey), _keyed_side(old, devices, rekey)
    everything = sorted({*here.found, *here.absent, *there.found, *there.absent})
    compared = tuple(_compared(key, here, there, options) for key in everything)
    return Comparison(new, old, options, compared, devices, left_out)


@dataclass(frozen=True, slots=True)
class _KeyedSide:
    """A side with keys that match those of the other side."""

    name: str
    found: Mapping[Identity, FoundProblem]
    absent: Mapping[Identity, str]
    devices: Mapping[Identity, str]


def _keyed_side(
    side: Side, devices: Sequence[str], rekey: Callable[[Identity], Identity]
) -> _KeyedSide:
    found = {rekey(key): one for key, one in side.found.items() if key[1] in devices}
    absent = {rekey(key): why for key, why in side.absent.items() if key[1] in devices}
    known = {rekey(key): key[1] for key in (*side.found, *side.absent) if key[1] in devices}
    return _KeyedSide(side.name, found, absent, known)


def _key_on_device(key: Identity) -> Identity:
    return key


def _key_on_any_device(key: Identity) -> Identity:
    return key[0], ""


def _common_devices(
    new: Side, old: Side, options: CompareOptions
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The devices to compare, and those that only one side has."""
    if options.across_devices:
        for side, option in ((new, "--device"), (old, "--against-device")):
            if len(side.devices) > 1:
                listed = ", ".join(side.devices)
                raise UsageError(
                    f"{side.name} has results of several devices ({listed}); "
                    f"select one with {option}"
                )
        return tuple(sorted({*new.devices, *old.devices})), ()
    common = tuple(sorted({*new.devices} & {*old.devices}))
    if not common:
        raise UsageError(
            f"{new.name} is for {_listed(new.devices)} and {old.name} for {_listed(old.devices)}: "
            "times of different devices are not comparable; "
            "--across-devices compares them nevertheless"
        )
    return common, tuple(sorted({*new.devices} ^ {*old.devices}))


def _listed(devices: Sequence[str]) -> str:
    return ", ".join(devices) or "no device"


def _compared(
    key: Identity, new: _KeyedSide, old: _KeyedSide, options: CompareOptions
) -> ProblemComparison:
    here, there = new.found.get(key), old.found.get(key)
    device = new.devices.get(key) or old.devices[key]
    subject = _compared_problem(key[0], [one for one in (here, there) if one], device)
    if here and there:
        reference_solver = options.relative_to
        both = timing_of(here, reference_solver), timing_of(there, reference_solver)
        return compare_timings(subject, *both, options.margin, relative=bool(reference_solver))
    about = (subject.problem, subject.find_key, subject.device)
    if here:
        why = old.absent.get(key, f"not in {old.name}")
        return ProblemComparison(*about, ComparisonOutcome.ADDED, new=timing_of(here), reason=why)
    if there:
        why = new.absent.get(key, f"not in {new.name}")
        return ProblemComparison(
            *about, ComparisonOutcome.MISSING, old=timing_of(there), reason=why
        )
    return ProblemComparison(
        *about, ComparisonOutcome.NEITHER, reason=new.absent.get(key) or old.absent[key]
    )


def _compared_problem(key: str, found: Sequence[FoundProblem], device: str) -> ComparedProblem:
    """The problem, with Skipjack's key if a side has it; MIOpen's files have only MIOpen's."""
    names = [one.problem for one in found if one.problem != one.find_key]
    find_key = next((one.find_key for one in found), None)
    return ComparedProblem(names[0] if names else key, find_key, device)


def timing_of(found: FoundProblem, relative_to: str = "") -> WinnerTiming:
    """The fastest entry of a problem; an impossible time counts as the fastest."""
    first = min(found.ranking, key=_time)
    reference = next((one for one in found.ranking if one.solver == relative_to), None)
    return WinnerTiming(
        first.solver,
        first.time_ns,
        _spread(first),
        first.samples or 0,
        reference.time_ns if reference else None,
        _spread(reference) if reference else None,
    )


def _time(entry: RankedEntry) -> float:
    return -math.inf if math.isnan(entry.time_ns) else entry.time_ns


def _spread(entry: RankedEntry) -> float | None:
    """The spread of an entry; None for a single sample, whatever the file contains."""
    return None if not entry.spread and (entry.samples or 0) < 2 else entry.spread


def _gain(one: ProblemComparison) -> float:
    return one.gain if one.gain is not None else 1.0
