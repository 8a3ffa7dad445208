"""The solver for matrix products of few rows, and its space."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES, VectorType
from skipjack.native.slots import parallel_slot, workspace_slot
from skipjack.solvers.cpu.thin.code import ThinRecipe, generate
from skipjack.solvers.loops.compiling import LlvmSolver
from skipjack.solvers.loops.packed_product import parse_tile, product_of, refusal_of
from skipjack.solvers.solver import Slot, Source

_MOST_ROWS = 64
"""With more, copying B into panels takes less time than reading C again and again."""
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
_VECTORS = (1, 2, 3, 4, 6, 8)
_FEW_ROWS = 2
_STEPS = {2: 0.15, 4: 0.03, 8: 0.0, 16: 0.08}
_STEPS_OF_FEW = {2: 0.05, 4: 0.0, 8: 0.06, 16: 0.3}
"""Steps that are taken at a time, and what they cost beside the best number of them."""
_LATENCY_SUMS, _MANY_SUMS = 8, 16
"""Independent sums that keep the arithmetic busy; of more, too many are written at once."""
_PAGE, _LINE = 4096, 64


class ThinSolver(LlvmSolver):
    """Tile and steps are built; whether the steps lie apart is set at run time."""

    name = "thin"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Products of few rows whose B is stored row by row, on CPUs."""
        if refusal := refusal_of(problem, device):
            return refusal
        product = product_of(problem)
        if product.batch > 1 or product.b.column != 1:
            return "it knows single products whose B is stored row by row"
        if product.m > _MOST_ROWS:
            return f"the product has {product.m} rows; it is for {_MOST_ROWS} at most"
        if device.units > 1 and device.units * product.m > product.k:
            return "the results of its threads would be larger than what they read"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """Much where B does not fit into the second cache, and is much more than threads write."""
        product = product_of(problem)
        b_bytes = product.n * product.k * ITEM_BYTES[problem.dtype]
        far = b_bytes > (device.cache_bytes("L2") or 1 << 20)
        wide = product.n >= 8 * _lanes(problem, device)
        long = 4 * device.units * product.m <= product.k
        return 2.0 if far and wide and long else 0.0

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Tiles that fit the registers, steps that there are."""
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
        """IR text; the shape does not enter."""
        recipe = _recipe(problem, device, config)
        return self.source(generate(recipe), device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers, sizes, strides."""
        product, recipe = product_of(problem), _recipe(problem, device, config)
        threads, item = device.units, recipe.vector.item_bytes
        tiles = -(-product.m // recipe.rows)
        scalars = _pages(tiles * recipe.rows * recipe.steps * item)
        blocks = -(-product.n // recipe.columns)
        # A line more: at a multiple of a page the threads' results would evict each other.
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
    """Of sums, vectors of B (of a single row they are used where they lie), and an element of A."""
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
    """Relative time, by arithmetic and by what was fastest on Zen 5 with AVX2 and AVX-512.

    One row or two are bound by memory, which four long streams read fastest; more rows by
    arithmetic, and by C, which is read and written again after so many steps.
    """
    rows, vectors = parse_tile(config["tile"])
    steps, sums = int(config["steps"]), rows * vectors
    idle = -(-m // rows) * rows / m
    loads = (rows + vectors + 2 * sums / steps) / sums
    work = idle * max(1.0, _LATENCY_SUMS / sums) + 0.1 * loads + 0.01 * max(0, sums - _MANY_SUMS)
    # Asking ahead took 20 % off the time where B was in the third cache and its rows not aligned,
    # and added as much where it was in memory.
    work += 0.04 if config["ahead_bytes"] else 0.0
    near = 0.0 if config["apart"] else 0.1 if m <= _FEW_ROWS else 0.005
    return work + near + (_STEPS_OF_FEW if m <= _FEW_ROWS else _STEPS).get(steps, 0.0)
