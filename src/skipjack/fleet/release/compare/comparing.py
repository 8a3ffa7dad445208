"""Two sides, problem by problem: verdicts, geometric means, extremes and changed winners."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from skipjack.errors import UsageError
from skipjack.fleet.release.compare.sides import Identity, Side
from skipjack.fleet.release.compare.verdicts import (
    Compared,
    Margin,
    Subject,
    Timing,
    Verdict,
    judge,
)
from skipjack.fleet.release.results import FoundProblem, RankedEntry


@dataclass(frozen=True, slots=True)
class Mean:
    """A geometric mean of gains."""

    gain: float
    """1.0 of none."""
    problems: int


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How two sides are compared."""

    margin: Margin = field(default_factory=Margin)
    relative_to: str = ""
    """A solver: times are compared as multiples of its time on the same side."""
    across_devices: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of comparing two sides."""

    new: Side
    old: Side
    options: CompareOptions
    problems: tuple[Compared, ...]
    """In the order of their keys."""
    devices: tuple[str, ...]
    """Those that were compared."""
    left_out: tuple[str, ...] = ()
    """Devices that one side alone has."""

    def count(self, verdict: Verdict) -> int:
        """How many problems there are with this verdict."""
        return sum(one.verdict is verdict for one in self.problems)

    def of(self, *verdicts: Verdict) -> list[Compared]:
        """The problems with one of these verdicts."""
        return [one for one in self.problems if one.verdict in verdicts]

    @property
    def compared(self) -> list[Compared]:
        """The problems that have two times."""
        return [one for one in self.problems if one.verdict.compared]

    @property
    def mean(self) -> Mean:
        """Over all that were compared."""
        return mean_gain(self.compared)

    @property
    def mean_same(self) -> Mean:
        """Over those where the same solver won."""
        return mean_gain(one for one in self.compared if not one.winner_changed)

    @property
    def mean_changed(self) -> Mean:
        """Over those where another solver won."""
        return mean_gain(one for one in self.compared if one.winner_changed)

    def worst(self, count: int) -> list[Compared]:
        """The slower ones, the worst first."""
        return sorted(self.of(Verdict.SLOWER), key=_gain)[:count]

    def best(self, count: int) -> list[Compared]:
        """The faster ones, the best first."""
        return sorted(self.of(Verdict.FASTER), key=_gain, reverse=True)[:count]

    def changes(self) -> list[tuple[tuple[str, str], int]]:
        """From which winner to which, the most frequent first."""
        pairs = Counter(
            (one.old.solver, one.new.solver)
            for one in self.compared
            if one.new and one.old and one.winner_changed
        )
        return sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))

    def reasons(self) -> list[tuple[str, int]]:
        """Why problems have no verdict on speed, the most frequent first."""
        left = self.of(Verdict.MISSING, Verdict.ADDED, Verdict.NEITHER, Verdict.UNRELATED)
        why = Counter(one.reason for one in left)
        return sorted(why.items(), key=lambda pair: (-pair[1], pair[0]))


def mean_gain(problems: Iterable[Compared]) -> Mean:
    """The geometric mean of their gains."""
    logs = [math.log(one.gain) for one in problems if one.gain is not None]
    return Mean(math.exp(math.fsum(logs) / len(logs)) if logs else 1.0, len(logs))


def compare(new: Side, old: Side, options: CompareOptions | None = None) -> Comparison:
    """Compare every problem that either side knows, on the devices that both know."""
    options = options or CompareOptions()
    devices, left_out = _common_devices(new, old, options)
    place = _anywhere if options.across_devices else _on_its_device
    here, there = _placed(new, devices, place), _placed(old, devices, place)
    everything = sorted({*here.found, *here.absent, *there.found, *there.absent})
    compared = tuple(_compared(key, here, there, options) for key in everything)
    return Comparison(new, old, options, compared, devices, left_out)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A side, by what the other one calls the same."""

    name: str
    found: Mapping[Identity, FoundProblem]
    absent: Mapping[Identity, str]
    devices: Mapping[Identity, str]


def _placed(side: Side, devices: Sequence[str], place: Callable[[Identity], Identity]) -> _Placed:
    found = {place(key): one for key, one in side.found.items() if key[1] in devices}
    absent = {place(key): why for key, why in side.absent.items() if key[1] in devices}
    known = {place(key): key[1] for key in (*side.found, *side.absent) if key[1] in devices}
    return _Placed(side.name, found, absent, known)


def _on_its_device(key: Identity) -> Identity:
    return key


def _anywhere(key: Identity) -> Identity:
    return key[0], ""


def _common_devices(
    new: Side, old: Side, options: CompareOptions
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The devices to compare on, and those that only one side has."""
    if options.across_devices:
        for side, option in ((new, "--device"), (old, "--against-device")):
            if len(side.devices) > 1:
                listed = ", ".join(side.devices)
                raise UsageError(
                    f"{side.name} has results of several devices ({listed}); "
                    f"{option} says which of them to compare with another"
                )
        return tuple(sorted({*new.devices, *old.devices})), ()
    common = tuple(sorted({*new.devices} & {*old.devices}))
    if not common:
        raise UsageError(
            f"{new.name} is for {_listed(new.devices)} and {old.name} for {_listed(old.devices)}: "
            "times of different devices say nothing about a tuning; "
            "--across-devices compares them all the same"
        )
    return common, tuple(sorted({*new.devices} ^ {*old.devices}))


def _listed(devices: Sequence[str]) -> str:
    return ", ".join(devices) or "no device at all"


def _compared(key: Identity, new: _Placed, old: _Placed, options: CompareOptions) -> Compared:
    here, there = new.found.get(key), old.found.get(key)
    device = new.devices.get(key) or old.devices[key]
    subject = _subject(key[0], [one for one in (here, there) if one], device)
    if here and there:
        wanted = options.relative_to
        both = timing_of(here, wanted), timing_of(there, wanted)
        return judge(subject, *both, options.margin, relative=bool(wanted))
    about = (subject.problem, subject.find_key, subject.device)
    if here:
        why = old.absent.get(key, f"not in {old.name}")
        return Compared(*about, Verdict.ADDED, new=timing_of(here), reason=why)
    if there:
        why = new.absent.get(key, f"not in {new.name}")
        return Compared(*about, Verdict.MISSING, old=timing_of(there), reason=why)
    return Compared(*about, Verdict.NEITHER, reason=new.absent.get(key) or old.absent[key])


def _subject(key: str, found: Sequence[FoundProblem], device: str) -> Subject:
    """Called as we do where a side knows that name; files of MIOpen have their keys only."""
    names = [one.problem for one in found if one.problem != one.find_key]
    find_key = next((one.find_key for one in found), None)
    return Subject(names[0] if names else key, find_key, device)


def timing_of(found: FoundProblem, relative_to: str = "") -> Timing:
    """The fastest entry. Files need not be in order; an impossible time would come first."""
    first = min(found.ranking, key=_time)
    reference = next((one for one in found.ranking if one.solver == relative_to), None)
    return Timing(
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
    """One sample has no spread, whatever is written."""
    return None if not entry.spread and (entry.samples or 0) < 2 else entry.spread


def _gain(one: Compared) -> float:
    return one.gain if one.gain is not None else 1.0
