"""Matrix products of any size: packed operands, cache blocks, threads; sizes are arguments."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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
from skipjack.solvers.loops.nest_solver import compile_source
from skipjack.solvers.loops.packed import SPLITS, Blocks, generate
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.solver import Blob, Slot, Source

_TILES = ("4x6", "5x5", "6x4", "8x3", "10x2", "12x2", "14x2", "5x4", "4x4", "6x2", "4x3", "4x2")
"""Rows and vectors of columns; those beyond the registers are left out."""


class PackedSpace(ParameterSpace):
    """Tries different tiles before different blocks of one tile."""

    def promising(self, count: int) -> Sequence[Config]:
        """By the estimate, but one of each tile in turn."""
        groups: dict[tuple[object, object], list[Config]] = {}
        for config in super().promising(10_000):
            groups.setdefault((config["tile"], config["pack_a"]), []).append(config)
        turns = itertools.chain.from_iterable(itertools.zip_longest(*groups.values()))
        return tuple(itertools.islice((config for config in turns if config), count))


class PackedSolver:
    """The tile and the epilogue are built; blocks and the threads' shares are set at run time."""

    name = "packed"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Matrix products on CPUs."""
        if device.kind != "cpu":
            return f"it builds for CPUs, not for {device.name}"
        return (
            "" if isinstance(get(problem.operation), Matmul) else "it knows matrix products alone"
        )

    def prefers(self, problem: Problem, device: Device) -> bool:
        """Where a plain nest would miss caches, or could not read in vectors."""
        settings = Settings.of(problem)
        large = bytes_moved(problem) > (device.cache_bytes("L2") or 1 << 20)
        _, m, n, _ = _matmul(problem).sizes(problem)
        return min(m, n) > 1 and (large or settings.ta or settings.tb)

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Tiles that fit the registers, blocks that fit the caches, best by arithmetic first."""
        operation = _matmul(problem)
        batch, m, n, k = operation.sizes(problem)
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        registers = registers_of(device)
        tiles = tuple(tile for tile in _TILES if _fits(tile, registers))
        splits = _splits(batch, m, n, device.units)
        packs = (True,) if Settings.of(problem).ta else (False, True)
        return PackedSpace(
            [
                Parameter("tile", tiles, default=tiles[0]),
                Parameter("unroll", (1, 2), default=1),
                Parameter("pack_a", packs, default=packs[-1]),
                Parameter("m_block", _sizes(m, (96, 192, 480)), stage="run"),
                Parameter("k_block", _sizes(k, (256, 384, 512)), stage="run"),
                Parameter("n_block", _sizes(n, (256, 512, 1024)), stage="run"),
                Parameter("split", splits, stage="run"),
            ],
            [],
            order=lambda config: _estimate(config, (m, n, k), lanes, device),
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
    rows, vectors = (int(part) for part in str(config["tile"]).split("x"))
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
    rows, vectors = (int(part) for part in tile.split("x"))
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


def _estimate(config: Config, sizes: tuple[int, int, int], lanes: int, device: Device) -> float:
    """Relative time by arithmetic alone: tile waste, loads per multiply-add, packing, caches."""
    m, n, k = sizes
    rows, vectors = (int(part) for part in str(config["tile"]).split("x"))
    m_block, k_block, n_block = (int(config[f"{letter}_block"]) for letter in "mkn")
    columns = vectors * lanes
    item = 64 // lanes if device.vector_bytes == 64 else device.vector_bytes // lanes
    waste = (-(-m // rows) * rows / m) * (-(-n // columns) * columns / n)
    loads = 1.0 + 0.15 * (rows + vectors) / (rows * vectors)
    latency = max(1.0, 10.0 / (rows * vectors))
    packing = 4.0 / m + (6.0 * -(-n // n_block) / n if config["pack_a"] else 0.0)
    accumulating = 0.05 * (-(-k // k_block) - 1) * 256 / k
    b_panel, a_block = k_block * columns * item, m_block * k_block * item
    l1, l2 = device.cache_bytes("L1") or 32768, device.cache_bytes("L2") or 1 << 20
    spilled = 0.01 * max(0.0, b_panel / l1 - 1.0) + 0.05 * max(0.0, a_block / (0.6 * l2) - 1.0)
    order = 0.0002 * int(config["unroll"])
    return waste * loads * latency + packing + accumulating + spilled + order
