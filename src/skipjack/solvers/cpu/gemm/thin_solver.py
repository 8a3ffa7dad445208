"""The solver for matrix products of few rows, and its space."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem
from skipjack.native import ITEM_BYTES, VectorType, parallel_slot, registers_of, workspace_slot
from skipjack.solvers.cpu.gemm.product import parse_tile, product_of, refusal_of
from skipjack.solvers.cpu.gemm.thin_code import ThinRecipe, generate
from skipjack.solvers.cpu.ir import LlvmSolver
from skipjack.solvers.solver import Slot, Source

_MOST_ROWS = 64
"""With more rows, packing B takes less time than reading C again and again."""
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
_VECTORS = (1, 2, 3, 4, 6, 8)
_FEW_ROWS = 2
_STEPS = {2: 0.15, 4: 0.03, 8: 0.0, 16: 0.08}
_STEPS_OF_FEW = {2: 0.05, 4: 0.0, 8: 0.06, 16: 0.3}
"""Steps that are taken at a time, and their cost compared with the best number of steps."""
_LATENCY_SUMS, _MANY_SUMS = 8, 16
"""Independent sums that keep the arithmetic units busy; more are too many writes at once."""
_PAGE, _LINE = 4096, 64


class ThinSolver(LlvmSolver):
    """Builds the tile and the steps; whether the steps lie apart is set at run time."""

    name = "thin"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts products of few rows whose B is stored row by row, on CPUs."""
        if refusal := refusal_of(problem, device):
            return refusal
        product = product_of(problem)
        if product.batch > 1 or product.b.column != 1:
            return "it only supports single products whose B is stored row by row"
        if product.m > _MOST_ROWS:
            return f"the product has {product.m} rows; it supports at most {_MOST_ROWS}"
        if device.units > 1 and device.units * product.m > product.k:
            return "the partial results of the threads would be larger than the data they read"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """High if B does not fit into L2 and is much larger than what the threads write."""
        product = product_of(problem)
        b_bytes = product.n * product.k * ITEM_BYTES[problem.dtype]
        far = b_bytes > (device.cache_bytes("L2") or 1 << 20)
        wide = product.n >= 8 * _lanes(problem, device)
        long = 4 * device.units * product.m <= product.k
        return 2.0 if far and wide and long else 0.0

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Tiles that fit the registers, and numbers of steps that each thread has."""
        product, registers = product_of(problem), registers_of(device)
        tiles = [
            f"{rows}x{vectors}"
            for rows in _ROWS
            for vectors in _VECTORS
            if rows <= product.m and _registers(rows, vectors) <= registers
        ]
        most = product.k // device.units
        steps = tuple(number for number in _STEPS if number <= most) or (1,)
        return ParameterSpace(
            [
                Parameter("tile", tuple(tiles)),
                Parameter("steps", steps),
                Parameter("ahead_bytes", (0, 1024) if product.m <= _FEW_ROWS else (0,)),
                Parameter("apart", (False, True), stage="run"),
            ],
            order=lambda config: _estimate(config, product.m),
            default_by_order=True,
        )

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """The code does not depend on the shape."""
        recipe = _recipe(problem, device, config)
        return self.source(generate(recipe), device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        product, recipe = product_of(problem), _recipe(problem, device, config)
        threads, item = device.units, recipe.vector.item_bytes
        tiles = -(-product.m // recipe.rows)
        scalars = _pages(tiles * recipe.rows * recipe.steps * item)
        blocks = -(-product.n // recipe.columns)
        # One more cache line: at a multiple of a page the threads' results would evict each other.
        room = scalars + _pages(blocks * tiles * recipe.tile_bytes) + _LINE
        extras: list[Slot] = []
        for operand in product.extras:
            extras += [operand.slot, operand.row]
        return [
            *("a", "b", "out", workspace_slot(room * threads), parallel_slot(threads)),
            *(threads, product.m, product.n, product.k),
            *(product.a.row, product.a.column, product.b.row, product.out.row),
            *(tiles, room, scalars, int(bool(config["apart"]))),
            *extras,
        ]


def _registers(rows: int, vectors: int) -> int:
    """Registers of the sums, the vectors of B (operands in memory for a single row) and one element
    of A."""
    return rows * vectors + (vectors if rows > 1 else 0) + 1


def _lanes(problem: Problem, device: Device) -> int:
    return device.vector_bytes // ITEM_BYTES[problem.dtype]


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


def _recipe(problem: Problem, device: Device, config: Config) -> ThinRecipe:
    product = product_of(problem)
    rows, vectors = parse_tile(config["tile"])
    vector = VectorType(problem.dtype, _lanes(problem, device))
    steps = int(config["steps"])
    return ThinRecipe(
        *(rows, vectors, steps, vector, product.epilogue, len(product.extras)),
        ahead_bytes=int(config["ahead_bytes"]),
    )


def _estimate(config: Config, m: int) -> float:
    """Relative time, by arithmetic and by measurements on Zen 5 with AVX2 and AVX-512.

    One or two rows are limited by memory, which four long streams read fastest; more rows by
    arithmetic, and by C, which is read and written again after every few steps.
    """
    rows, vectors = parse_tile(config["tile"])
    steps, sums = int(config["steps"]), rows * vectors
    idle = -(-m // rows) * rows / m
    loads = (rows + vectors + 2 * sums / steps) / sums
    work = idle * max(1.0, _LATENCY_SUMS / sums) + 0.1 * loads + 0.01 * max(0, sums - _MANY_SUMS)
    # Prefetching reduced the time by 20 % if B was in L3 and its rows were not aligned, and added
    # as much if B was in memory.
    work += 0.04 if config["ahead_bytes"] else 0.0
    near = 0.0 if config["apart"] else 0.1 if m <= _FEW_ROWS else 0.005
    return work + near + (_STEPS_OF_FEW if m <= _FEW_ROWS else _STEPS).get(steps, 0.0)
