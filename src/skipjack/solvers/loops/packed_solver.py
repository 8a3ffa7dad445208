"""Matrix products of any size: packed operands, cache blocks, threads; sizes are arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native import llvm
from skipjack.native.cpu import registers_of, target_of
from skipjack.native.ir import ITEM_BYTES, VectorType
from skipjack.native.slots import parallel_slot, workspace_slot
from skipjack.operations import bytes_moved, get
from skipjack.operations.matmul import Matmul, Settings
from skipjack.solvers.loops.compiling import compile_source
from skipjack.solvers.loops.packed import SPLITS, Blocks, generate
from skipjack.solvers.loops.packed_estimate import Sizes, estimate, parse_tile
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.solver import Blob, Slot, Source

_TILES = ("6x4", "5x4", "4x4", "8x3", "8x2", "12x2", "14x2", "4x6", "5x5", "6x2", "4x3", "4x2")
"""Rows and vectors of columns; those beyond the registers are left out."""
_NOT_THIN = 33
"""With fewer rows or columns packing takes as long as the product."""
_RANKED = 256
_REPEATED = 0.004
"""How much better a config must be for every one before it with the same tile."""


class PackedSpace(ParameterSpace):
    """Tries different tiles before many blocks of one tile."""

    def __init__(
        self, parameters: Sequence[Parameter], estimate: Callable[[Config], float]
    ) -> None:
        super().__init__(parameters, [], order=estimate, default_by_order=True)
        self.estimate = estimate

    def promising(self, count: int) -> Sequence[Config]:
        """By the estimate, but what repeats a tile has to be a little better each time."""
        tried: Counter[tuple[object, object]] = Counter()
        ranked: list[tuple[float, int, Config]] = []
        for config in super().promising(_RANKED):
            tile = (config["tile"], config["pack_a"])
            ranked.append((self.estimate(config) + _REPEATED * tried[tile], len(ranked), config))
            tried[tile] += 1
        return [config for *_, config in sorted(ranked, key=lambda entry: entry[:2])[:count]]


class PackedSolver:
    """The tile and the epilogue are built; blocks and the threads' shares are set at run time."""

    name = "packed"
    version = 2

    def refuses(self, problem: Problem, device: Device) -> str:
        """Matrix products on CPUs."""
        if device.kind != "cpu":
            return f"it builds for CPUs, not for {device.name}"
        return (
            "" if isinstance(get(problem.operation), Matmul) else "it knows matrix products alone"
        )

    def promise(self, problem: Problem, device: Device) -> float:
        """Likely better than a plain nest where that misses caches or cannot read in vectors."""
        settings = Settings.of(problem)
        _, m, n, _ = _matmul(problem).sizes(problem)
        if min(m, n) == 1:
            return 0.0
        large = bytes_moved(problem) / (device.cache_bytes("L2") or 1 << 20)
        if settings.ta or settings.tb or (large > 4 and min(m, n) >= _NOT_THIN):
            return 2.0
        return 0.5 if large > 0.25 else 0.0

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Tiles that fit the registers, blocks that fit the caches, best by arithmetic first."""
        operation = _matmul(problem)
        batch, m, n, k = operation.sizes(problem)
        item = ITEM_BYTES[problem.dtype]
        sizes = Sizes(m, n, k, device.vector_bytes // item, item, device)
        registers = registers_of(device)
        tiles = tuple(tile for tile in _TILES if _fits(tile, registers))
        splits = _splits(batch, m, n, device.units)
        packs = (True,) if Settings.of(problem).ta else (False, True)
        return PackedSpace(
            [
                Parameter("tile", tiles),
                Parameter("unroll", (1, 2)),
                Parameter("pack_a", packs),
                Parameter("m_block", _sizes(m, (48, 96, 192)), stage="run"),
                Parameter("k_block", _sizes(k, (64, 128, 256, 512, 1024)), stage="run"),
                Parameter("n_block", _sizes(n, (256, 512, 2048)), stage="run"),
                Parameter("split", splits, stage="run"),
            ],
            lambda config: estimate(config, sizes),
        )

    def compiler(self) -> str:
        """LLVM."""
        return llvm.compiler_version()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """IR text; the shape does not enter."""
        return Source(
            generate(_recipe(problem, device, config)), target_of(device), self.compiler()
        )

    def compile(self, source: Source) -> Blob:
        """Object code."""
        return compile_source(source)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers, sizes, strides, blocks."""
        operation = _matmul(problem)
        batch, m, n, k = operation.sizes(problem)
        settings = Settings.of(problem)
        recipe = _recipe(problem, device, config)
        blocks = Blocks(
            -(-int(config["m_block"]) // recipe.rows) * recipe.rows,
            min(int(config["k_block"]), k),
            -(-int(config["n_block"]) // recipe.columns) * recipe.columns,
        )
        room = blocks.workspace_bytes(recipe)
        a_strides = (m * k, 1, m) if settings.ta else (m * k, k, 1)
        b_strides = (n * k, 1, k) if settings.tb else (n * k, n, 1)
        extras: list[Slot] = []
        for tensor in operation.inputs(problem)[2:]:
            extras += [tensor.name, *((0, 0) if tensor.name == "bias" else (m * n, n))]
        return [
            "a",
            "b",
            "out",
            workspace_slot(room * device.units),
            parallel_slot(device.units),
            device.units,
            SPLITS.index(str(config["split"])),
            *(batch, m, n, k),
            *a_strides,
            *b_strides,
            *(m * n, n),
            *(blocks.m, blocks.k, blocks.n, room),
            *extras,
        ]


def _matmul(problem: Problem) -> Matmul:
    operation = get(problem.operation)
    assert isinstance(operation, Matmul)
    return operation


def _recipe(problem: Problem, device: Device, config: Config) -> Recipe:
    operation = _matmul(problem)
    rows, vectors = parse_tile(config["tile"])
    return Recipe(
        rows,
        vectors,
        int(config["unroll"]),
        bool(config["pack_a"]),
        VectorType(problem.dtype, device.vector_bytes // ITEM_BYTES[problem.dtype]),
        operation.epilogue(problem),
        len(operation.inputs(problem)) - 2,
    )


def _fits(tile: str, registers: int) -> bool:
    rows, vectors = parse_tile(tile)
    return rows * vectors + vectors + 1 <= registers


def _sizes(extent: int, choices: tuple[int, ...]) -> tuple[int, ...]:
    """Blocks smaller than the extent, and the whole of it where that is not much larger."""
    smaller = tuple(size for size in choices if size < extent)
    return (*smaller, extent) if extent <= 2 * choices[-1] else smaller


def _splits(batch: int, m: int, n: int, threads: int) -> tuple[str, ...]:
    if threads == 1:
        return ("rows",)
    return tuple(
        name
        for name, size in zip(SPLITS, (batch, m, n), strict=True)
        if size >= threads or name == "rows"
    )
