"""Going down the rows of a plane so that every row is loaded once: which row meets what, and when.

Round by round the next rows of the image (backward: of the result) are loaded, and multiplied by
all rows of the filter that they meet. What they meet are rows of the other array, in blocks of as
many as one round finishes: those of a few blocks are under way at the same time, and stay in
registers from round to round. Rounds at the ends, which have rows missing, are told apart from
those in between, which are all alike and become a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

from skipjack.solvers.convolution.depthwise_axis import Pattern
from skipjack.solvers.loops.whole_numbers import WholeNumberWriter


@dataclass(frozen=True, slots=True, order=True)
class Partner:
    """A row under way: of the block so many before the round's number, and of a phase in it."""

    back: int
    phase: int


@dataclass(frozen=True, slots=True)
class Round:
    """What happens to rows that are loaded together, in as many rounds as it repeats."""

    rows: tuple[tuple[int, tuple[tuple[Partner, int], ...]], ...]
    """Rows of the round that exist, each with whom it meets through which row of the filter."""
    known: frozenset[Partner]
    """Those under way when the round begins."""
    done: tuple[Partner, ...]
    """Those that are finished when it ends."""
    repeats: int = 1

    @property
    def met(self) -> frozenset[Partner]:
        """Those who meet a row of this round."""
        return frozenset(partner for _, meetings in self.rows for partner, _ in meetings)

    @property
    def later(self) -> frozenset[Partner]:
        """Those under way after it, as the next round knows them."""
        left = (self.known | self.met) - set(self.done)
        return frozenset(Partner(partner.back + 1, partner.phase) for partner in left)


@dataclass(frozen=True)
class March:
    """All rounds of some blocks of a plane. Numbers are relative to the first of these blocks."""

    rounds: tuple[Round, ...]
    start: int
    """The first round's number."""

    @cached_property
    def live(self) -> int:
        """The most rows that are under way at once."""
        return max((len(each.known | each.met) for each in self.rounds), default=0)


@lru_cache(maxsize=1024)
def march(pattern: Pattern, begin: int = 0, end: int | None = None) -> March:
    """The march over the blocks from `begin` to before `end`, of a plane's rows."""
    marching = _Marching(pattern, begin, pattern.blocks if end is None else end)
    found: list[Round] = []
    known: frozenset[Partner] = frozenset()
    start = 0
    for number in marching.numbers():
        each = Round(marching.rows(number), known, marching.done(number))
        if not found and not (each.rows or each.done):
            continue
        start = start if found else number - begin
        known = each.later
        if found and replace(found[-1], repeats=1) == each:
            found[-1] = replace(found[-1], repeats=found[-1].repeats + 1)
        else:
            found.append(each)
    return March(tuple(found), start)


class _Marching:
    """What happens in a round, by its number: it loads rows of as many blocks of the pattern."""

    def __init__(self, pattern: Pattern, begin: int, end: int) -> None:
        self.pattern, self.begin, self.end = pattern, begin, end
        self.meetings: list[tuple[Partner, int, int]] = []
        """Who meets which row of a round through which tap."""
        for phase, reads in enumerate(pattern.phases):
            for tap, place in reads:
                back, row = divmod(place, pattern.stride)
                self.meetings.append((Partner(back, phase), row, tap))
        backs = [partner.back for partner, _, _ in self.meetings] or [0]
        self.first, self.last = min(backs), max(backs)
        self.ends = [
            Partner(
                max([p.back for p, _, _ in self.meetings if p.phase == phase], default=self.last),
                phase,
            )
            for phase in range(pattern.step)
        ]
        """For every phase who meets the last of its rows."""

    def numbers(self) -> range:
        return range(self.begin + self.first, self.end + self.last)

    def done(self, number: int) -> tuple[Partner, ...]:
        return tuple(partner for partner in self.ends if self._exists(partner, number))

    def rows(self, number: int) -> tuple[tuple[int, tuple[tuple[Partner, int], ...]], ...]:
        found = []
        for row in range(self.pattern.stride):
            met = tuple(
                (partner, tap)
                for partner, its, tap in self.meetings
                if its == row and self._exists(partner, number)
            )
            if met and 0 <= self.pattern.stride * number + row < self.pattern.given:
                found.append((row, met))
        return tuple(found)

    def _exists(self, partner: Partner, number: int) -> bool:
        block = number - partner.back
        return self.begin <= block < min(self.end, self.pattern.count(partner.phase))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some blocks of a plane that are marched over alone, and how many like this one follow."""

    march: March
    first: int
    """Its number among all chunks."""
    repeats: int = 1


@lru_cache(maxsize=256)
def chunks(pattern: Pattern, count: int) -> tuple[Chunk, ...]:
    """A plane's rows in so many chunks, of `chunk_blocks` blocks but for the last."""
    blocks = chunk_blocks(pattern, count)
    found: list[Chunk] = []
    for number, begin in enumerate(range(0, pattern.blocks, blocks)):
        each = march(pattern, begin, min(begin + blocks, pattern.blocks))
        if found and found[-1].march == each:
            found[-1] = replace(found[-1], repeats=found[-1].repeats + 1)
        else:
            found.append(Chunk(each, number))
    return tuple(found)


def chunk_choice(
    w: WholeNumberWriter, found: Sequence[Chunk], number: str, body: Callable[[int], None]
) -> None:
    """The body of the kind of chunk that a number stands for; all kinds are written."""
    if len(found) == 1:
        body(0)
        return
    for kind, chunk in enumerate(found):
        after = w.value(f"icmp uge i64 {number}, {chunk.first}")
        before = w.value(f"icmp ult i64 {number}, {chunk.first + chunk.repeats}")
        w.when(w.value(f"and i1 {after}, {before}"), partial(body, kind))


def chunk_blocks(pattern: Pattern, count: int) -> int:
    """Blocks of a chunk."""
    return -(-pattern.blocks // count)
