"""Features of a schedule on a machine that predict its speed, of one size for every nest.

In addition to sizes and marks, they estimate what costs time: how much of each vector is used, how
many loads the register tile needs for each iteration, how often sums go to memory and back, how
many bytes come from beyond each cache, how evenly threads are busy, and the size of the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from math import log2, prod

from skipjack.core import Access, Accumulator, Call, Device, Problem, Scalar
from skipjack.learn.loops import LoopGame, Preset, loop_game
from skipjack.solvers.cpu.nest import (
    Loop,
    Mark,
    Schedule,
    accumulator_vectors,
    is_parallel,
    is_streaming,
    ranges,
    unrolled_copies,
)

MODEL_FEATURES = 3
"""The version of the features, which models store."""
_LINE, _PAGE = 64, 4096
_SMALL = (32 << 10, 1 << 20, 32 << 20)
"""Sizes of caches that are not known."""
_SLOW_STEPS = frozenset(
    {"exp", "log", "tanh", "sigmoid", "silu", "erf", "gelu", "gelu_tanh", "sqrt", "div", "rsqrt"}
) | {"silu_backward", "gelu_backward", "gelu_tanh_backward"}


class CostFacts:
    """Facts about a game's nest and machine, computed once for all its schedules."""

    def __init__(self, game: LoopGame) -> None:
        nest, limits, machine = game.nest, game.limits, game.machine
        self.nest, self.lanes, self.registers = nest, limits.lanes, limits.registers
        self.threads, self.item = machine.threads, machine.item_bytes
        self.caches = (*machine.caches, *_SMALL[len(machine.caches) :])[: len(_SMALL)]
        self.accesses = (*nest.inputs, nest.output)
        self.strides = [{name: a.stride(name) for name, _ in nest.loops} for a in self.accesses]
        self.extents = dict(nest.loops)
        self.iterations = float(prod(self.extents.values()))
        self.reduced = frozenset(nest.reduction_loops)
        steps, slow = _steps(nest.body)
        ended, slow_ended = _steps(nest.epilogue)
        touched = sum(access.tensor.size for access in self.accesses) * self.item
        kept = prod(size for name, size in nest.loops if name not in self.reduced)
        self.fixed = [
            log2(self.lanes),
            log2(self.registers),
            float(self.threads > 1),
            *(log2(size) for size in self.caches),
            float(self.item == 8),
            log2(self.iterations),
            log2(touched),
            log2(touched / self.iterations),
            float(len(nest.inputs)),
            float(bool(nest.reduction)),
            float(nest.reduction in ("max", "min")),
            log2(self.iterations / kept),
            float(len([size for size in self.extents.values() if size > 1])),
            float(steps),
            float(slow),
            float(ended),
            float(slow_ended) * kept / self.iterations,
        ]


@lru_cache(maxsize=256)
def cost_facts(problem: Problem, device: Device) -> CostFacts:
    """The facts of a problem on a device; those of recent problems are cached."""
    return CostFacts(loop_game(problem, device, Preset.FULL))


def _steps(scalar: Scalar) -> tuple[int, int]:
    """The number of steps of an expression, and how many of them are slow."""
    if isinstance(scalar, Accumulator) or not isinstance(scalar, Call):
        return 0, 0
    inner = [_steps(argument) for argument in scalar.arguments]
    own = scalar.function in _SLOW_STEPS
    return 1 + sum(a for a, _ in inner), int(own) + sum(b for _, b in inner)


def log_scale(facts: CostFacts) -> float:
    """Log2 of the seconds that a nest would take at one vector per nanosecond."""
    return log2(facts.iterations / facts.lanes) - log2(1e9)


def cost_features(facts: CostFacts, schedule: Schedule) -> list[float]:
    """The features of a schedule; those of the nest and the machine come first."""
    nest, lanes, item = facts.nest, facts.lanes, facts.item
    loops, spans = schedule.loops, ranges(schedule, nest)
    start = schedule.suffix_start
    copies = unrolled_copies(schedule, nest, lanes)
    sums = accumulator_vectors(schedule, nest, lanes)
    trips = [-(-span // loop.step) for loop, span in zip(loops, spans, strict=True)]
    pivot = schedule.vectorized
    width = 1
    numbers = list(facts.fixed)
    # Vectors: how full they are, and how accesses move along them.
    if pivot is not None:
        at = loops.index(pivot)
        width = min(lanes, spans[at])
        vectors = -(-spans[at] // lanes)
        whole = facts.extents[pivot.variable]
        groups = -(-whole // spans[at])
        rest = whole - (groups - 1) * spans[at]
        padded = ((groups - 1) * vectors + -(-rest // lanes)) * lanes
        along_it = [strides[pivot.variable] for strides in facts.strides]
        read, written = along_it[:-1], along_it[-1]
        numbers += [
            1.0,
            log2(padded / whole),
            log2(width),
            float(sum(stride == 1 for stride in read)),
            float(sum(stride == 0 for stride in read)),
            float(sum(abs(stride) > 1 for stride in read)),
            float(written == 1),
            float(written == 0),
            float(pivot.variable in facts.reduced),
        ]
    else:
        numbers += [0.0] * 9
    # The register tile: copies, sums, loads for each iteration.
    tile = {name: 1 for name, _ in nest.loops}
    for loop, span in zip(loops[start:], spans[start:], strict=True):
        tile[loop.variable] = max(tile[loop.variable], span)
    body = prod(tile.values())
    loads = 0.0
    broadcasts = 0.0
    for strides in facts.strides[:-1]:
        needed = prod(
            -(-size // lanes) if pivot is not None and name == pivot.variable else size
            for name, size in tile.items()
            if strides[name]
        )
        along = strides[pivot.variable] if pivot is not None else 0
        if along == 0:
            broadcasts += needed
        loads += needed * (1 if abs(along) <= 1 else width)
    carried = 1
    for at in range(start - 1, -1, -1):
        if loops[at].variable not in facts.reduced:
            break
        carried *= trips[at]
    inner = trips[start - 1] if start else 1
    numbers += [
        log2(copies),
        log2(max(1, sums)),
        sums / facts.registers,
        float(sums > facts.registers - 2),
        log2(max(1.0, loads) / copies),
        log2(max(1.0, broadcasts) / copies),
        log2(body),
        log2(carried),
        log2(inner),
        float(bool(start) and loops[start - 1].variable in facts.reduced),
        float(any(loop.mark is Mark.ACCUMULATE for loop in loops)),
        float(len(loops)),
        float(start),
        log2(max(1.0, facts.iterations / body)),
        _tails(facts, schedule, spans),
    ]
    # Bytes from beyond registers and each cache, for each iteration.
    numbers += _traffic(facts, schedule, spans, trips)
    numbers += _counts(facts, schedule, spans, carried)
    numbers += _steps_in_memory(facts, schedule, trips)
    # Threads.
    shared = prod(t for loop, t in zip(loops, trips, strict=True) if loop.mark is Mark.PARALLEL)
    parallel = is_parallel(schedule)
    busy = -(-shared // facts.threads) * facts.threads / shared if parallel else facts.threads
    numbers += [
        float(parallel),
        log2(busy),
        float(
            parallel and any(x.mark is Mark.PARALLEL and x.variable in facts.reduced for x in loops)
        ),
        float(is_streaming(schedule)),
        log2(item),
    ]
    return numbers


def _tails(facts: CostFacts, schedule: Schedule, spans: tuple[int, ...]) -> float:
    """Log2 of the number of versions of the innermost code, for tails of unrolled loops."""
    versions = 0.0
    start = schedule.suffix_start
    for name in dict.fromkeys(loop.variable for loop in schedule.loops[start:]):
        outer = [
            (loop, span)
            for loop, span in zip(schedule.loops[:start], spans[:start], strict=True)
            if loop.variable == name
        ]
        versions += sum(bool(span % loop.step) for loop, span in outer)
    return versions


_LATENCY = 8
"""Latency of a multiply-add in half cycles."""


def _counts(
    facts: CostFacts, schedule: Schedule, spans: tuple[int, ...], carried: int
) -> list[float]:
    """Log2 of what is executed for each vector of iterations, including tails.

    Vector operations, loads and broadcasts; half cycles of the busiest unit and of the latency of
    sums, on a core that starts two operations and two loads per cycle; executions of the
    straight-line code; and stored sums.
    """
    names = list(facts.extents)
    pivot = schedule.vectorized
    pieces = [_pieces(facts, schedule, name) for name in names]
    width = _width(facts, schedule, spans)
    accumulates = {loop.variable for loop in schedule.loops if loop.mark is Mark.ACCUMULATE}
    summed = [
        at for at, name in enumerate(names) if name not in facts.reduced or name in accumulates
    ]
    moved = [
        (
            [at for at, name in enumerate(names) if strides[name]],
            bool(pivot and strides[pivot.variable] == 0),
            width if pivot and abs(strides[pivot.variable]) > 1 else 1,
        )
        for strides in facts.strides[:-1]
    ]
    totals = [0.0] * 7
    for combination in product(*pieces):
        times, sizes = 1.0, []
        for name, (size, count) in zip(names, combination, strict=True):
            times *= count
            sizes.append(-(-size // width) if pivot and name == pivot.variable else size)
        done = float(prod(sizes))
        read = broadcast = 0.0
        for dependent, same, price in moved:
            needed = prod(sizes[at] for at in dependent)
            read += needed * price
            broadcast += needed if same else 0
        sums = prod(sizes[at] for at in summed)
        waits = _LATENCY * done / sums if facts.reduced else 0.0
        for at, number in enumerate((done, read, broadcast, waits, max(done, read, waits), 1.0)):
            totals[at] += times * number
        totals[6] += times * sums / carried
    scale = facts.iterations / facts.lanes
    return [log2(max(total, 1e-3 * scale) / scale) for total in totals]


def _pieces(facts: CostFacts, schedule: Schedule, name: str) -> list[tuple[int, float]]:
    """The sizes of straight-line code along a variable, each with its number of executions."""
    found = {facts.extents[name]: 1.0}
    start = schedule.suffix_start
    for loop in schedule.loops[:start]:
        if loop.variable == name:
            cut: dict[int, float] = {}
            for size, count in found.items():
                step = min(loop.step, size)
                whole, rest = divmod(size, step)
                cut[step] = cut.get(step, 0.0) + whole * count
                if rest:
                    cut[rest] = cut.get(rest, 0.0) + count
            found = cut
    return list(found.items())


def _width(facts: CostFacts, schedule: Schedule, spans: tuple[int, ...]) -> int:
    """The number of elements in a vector."""
    at = next((n for n, loop in enumerate(schedule.loops) if loop.mark.in_vectors), None)
    return 1 if at is None else min(facts.lanes, spans[at])


def _traffic(
    facts: CostFacts, schedule: Schedule, spans: tuple[int, ...], trips: list[int]
) -> list[float]:
    """Log2 of the bytes for each iteration from beyond the registers and each cache.

    Each is followed by the contiguous bytes of the access with the most traffic. Then the bytes
    that the straight-line code touches with one, two and three loops around it, relative to the
    nearest cache.
    """
    loops = schedule.loops
    # The bytes that all loops from a position inwards touch, from the innermost outwards.
    covered = dict.fromkeys(facts.extents, 1)
    inside: list[list[float]] = [[]] * (len(loops) + 1)
    rows: list[list[int]] = [[]] * (len(loops) + 1)
    inside[len(loops)] = [float(facts.item)] * len(facts.accesses)
    rows[len(loops)] = [facts.item] * len(facts.accesses)
    for at in range(len(loops) - 1, -1, -1):
        covered[loops[at].variable] = spans[at]
        inside[at] = [_bytes(access, covered, facts.item) for access in facts.accesses]
        rows[at] = [_row(access, covered, facts.item) for access in facts.accesses]
    numbers = []
    start = schedule.suffix_start
    levels = [start]
    for size in facts.caches:
        level = len(loops)
        while level and sum(inside[level - 1]) <= 0.7 * size:
            level -= 1
        levels.append(level)
    for level in levels:
        moved = [
            inside[level][number] * _visits(strides, loops, trips, level)
            for number, strides in enumerate(facts.strides)
        ]
        numbers.append(log2(sum(moved) / facts.iterations))
        numbers.append(log2(rows[level][moved.index(max(moved))]))
    for outwards in (1, 2, 3):
        at = max(start - outwards, 0)
        numbers.append(log2(sum(inside[at]) / facts.caches[0]))
    return numbers


def _steps_in_memory(facts: CostFacts, schedule: Schedule, trips: list[int]) -> list[float]:
    """Steps in memory from one execution of the straight-line code to the next.

    The longest step in bytes, and the largest power of two that divides one of these steps or one
    between copies of the body: lines at such distances share few sets of a cache. Then the trips of
    the second and third loops around the straight-line code.
    """
    loops, start = schedule.loops, schedule.suffix_start
    longest, even = 1, 1
    for at, loop in enumerate(loops[max(start - 1, 0) :], max(start - 1, 0)):
        for strides in facts.strides:
            step = abs(strides[loop.variable]) * loop.step * facts.item
            if step >= _LINE:
                even = max(even, min(step & -step, _PAGE))
                longest = max(longest, step if at < start else 1)
    return [
        log2(longest),
        log2(even),
        *(log2(trips[start - at]) if start >= at else 0.0 for at in (2, 3)),
    ]


def _visits(
    strides: Mapping[str, int], loops: tuple[Loop, ...], trips: list[int], level: int
) -> float:
    """How often the data inside a level is read again; loops that do not move it do not count."""
    visits, moves = 1.0, False
    for at in range(level - 1, -1, -1):
        moves = moves or strides[loops[at].variable] != 0
        if moves:
            visits *= trips[at]
    return visits


def _bytes(access: Access, covered: Mapping[str, int], item: int) -> float:
    """Bytes of the cache lines that an access touches while loops cover these ranges."""
    reach = _reach(access, covered)
    row = reach[-1] * item
    if row < _LINE and len(reach) > 1 and access.tensor.shape[-1] * item > row:
        row = min(_LINE, access.tensor.shape[-1] * item)
    return float(row * prod(reach[:-1]))


def _row(access: Access, covered: Mapping[str, int], item: int) -> int:
    """The contiguous bytes that an access touches."""
    row = item
    for reached, size in zip(
        reversed(_reach(access, covered)), reversed(access.tensor.shape), strict=True
    ):
        row *= reached
        if reached < size:
            break
    return row


def _reach(access: Access, covered: Mapping[str, int]) -> list[int]:
    """The elements along each dimension that an access reaches while loops cover these ranges."""
    return [
        min(size, 1 + sum(abs(factor) * (covered[name] - 1) for name, factor in at.terms if factor))
        for at, size in zip(access.indices, access.tensor.shape, strict=True)
    ]
