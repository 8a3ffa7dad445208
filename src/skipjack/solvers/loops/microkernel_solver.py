"""Matmul by a micro-kernel that takes sizes and strides as arguments: few builds, every shape."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES, VectorType
from skipjack.solvers.loops.compiling import LlvmSolver
from skipjack.solvers.loops.microkernel import Tile, generate
from skipjack.solvers.solver import Slot, Source

_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28)
_VECTORS = (1, 2, 3, 4, 5, 6)


class MicrokernelSolver(LlvmSolver):
    """The tile is built; the order of the walk and the blocks of K are set at run time."""

    name = "microkernel"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Matmul on CPUs only."""
        if device.kind != "cpu":
            return f"it builds for CPUs, not for {device.name}"
        plain = problem.operation == "matmul" and not problem.attributes
        return "" if plain else "it knows the plain matmul alone"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Tiles whose accumulators fit the registers, best balance of work and loads first."""
        m, n, k = problem.shape
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        registers = registers_of(device)
        blocks = (0, *(size for size in (64, 128, 256, 512) if size < k))
        return ParameterSpace(
            [
                Parameter("rows", tuple(r for r in _ROWS if r == 1 or r <= m), default=min(4, m)),
                Parameter("vectors", _VECTORS, default=2),
                Parameter("unroll", (1, 2, 4), default=1),
                Parameter("columns_first", (False, True), default=False, stage="run"),
                Parameter("k_block", blocks, default=0, stage="run"),
            ],
            [f"rows * vectors + vectors + 1 <= {registers}"],
            order=lambda config: _estimate(config, _tile(config, problem.dtype, lanes), m, n),
        )

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """IR text of the tile and its driver; the shape does not enter."""
        lanes = device.vector_bytes // ITEM_BYTES[problem.dtype]
        tile = _tile(config, problem.dtype, lanes)
        return self.source(generate(tile), device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers, sizes, strides and the settings of the driver."""
        m, n, k = problem.shape
        settings = (int(config["columns_first"]), int(config["k_block"]))
        return ["a", "b", "out", m, n, k, k, n, n, *settings]


def _tile(config: Config, dtype: str, lanes: int) -> Tile:
    return Tile(
        rows=int(config["rows"]),
        vectors=int(config["vectors"]),
        unroll=int(config["unroll"]),
        vector=VectorType(dtype, lanes),
    )


def _estimate(config: Config, tile: Tile, m: int, n: int) -> float:
    """Relative time by arithmetic alone: idle parts of tiles, loads per multiply-add, latency."""
    rows, vectors = tile.rows, tile.vectors
    edge_columns = tile.edge_vectors * tile.vector.lanes
    covered = _covered(m, rows, tile.edge_rows) * _covered(n, tile.columns, edge_columns)
    loads = 1.0 + 0.15 * (rows + vectors) / (rows * vectors)
    latency = max(1.0, 10.0 / (rows * vectors))
    blocked = 0.002 * bool(config["k_block"]) + 0.001 * bool(config["columns_first"])
    return covered / (m * n) * loads * latency + blocked + 0.0001 * int(config["unroll"])


def _covered(length: int, size: int, edge: int) -> int:
    """What whole tiles and then edge tiles compute of a length, idle parts included."""
    left = length % size
    return length - left + -(-left // edge) * edge
