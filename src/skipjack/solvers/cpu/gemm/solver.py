"""The solver of matrix products of any size, its search space and its cost estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from skipjack.core import Config, ConstraintLike, Device, Parameter, ParameterSpace, Problem
from skipjack.native import ITEM_BYTES, registers_of
from skipjack.operations import bytes_moved
from skipjack.solvers.cpu.gemm.product import (
    GemmProduct,
    grid_of,
    parse_tile,
    product_of,
    refusal_of,
)
from skipjack.solvers.cpu.gemm.stage import (
    generate,
    product_parameters,
    product_recipe,
    product_stage,
)
from skipjack.solvers.cpu.ir import LlvmSolver
from skipjack.solvers.solver import Slot, Source

# How long a packed matrix product takes, by arithmetic alone: meant to order configs.
#
# The unit is the time of the product's multiply-adds at the full rate of the core. Constants are
# in cycles of a core that starts one multiply-add of whole vectors per cycle; they were fitted
# to some thousand timings of products of all shapes, blocks and ways to read the operands.

_TILE = 18.0
"""Starting and ending a tile."""
_TRANSPOSED_COLUMN = 3.8
"""Writing a column of a tile whose rows lie side by side in memory."""
_VECTOR_OF_C, _DISTANT_VECTOR_OF_C = 0.6, 3.2
"""Reading and writing a vector of C once more; the same if C does not fit into L2."""
_VECTOR_OF_B, _SPILLED_VECTOR_OF_B = 8.7, 0.26
"""Packing one vector of B; and the surcharge per size of L2 that the packed block takes."""
_ELEMENT_OF_A, _ELEMENT_OF_A_BY_COLUMNS = 0.9, 1.24
"""Packing one element of A."""
_B_IN_PLACE, _A_BY_COLUMNS_IN_PLACE, _PAGES_APART = 0.021, 0.011, 0.019
"""Reading an operand in place, per step; steps of B that lie a multiple of a page apart cost
more."""
_EDGE_LINE, _EDGE_ELEMENT_OF_A = 3.4, 0.59
"""Lines of a tile at the edge go through a buffer; their rows of A are packed."""
_FEW, _MANY = 16, 16
"""Sums of a tile: fewer do not hide the latency, and more are too many writes at once."""
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class ProductSizes:
    """A product, and the device that it runs on."""

    product: GemmProduct
    lanes: int
    item: int
    device: Device


def estimate(config: Config, sizes: ProductSizes) -> float:
    """Relative time of a config."""
    return _Estimate(config, sizes).time()


def clipped(config: Config, sizes: ProductSizes) -> Config:
    """The config with blocks cut to one thread's share of rows and columns."""
    taken = _Estimate(config, sizes)
    return config.replace(m_block=taken.m_block, n_block=taken.n_block)


class _Estimate:
    def __init__(self, config: Config, sizes: ProductSizes) -> None:
        self.sizes, self.product = sizes, sizes.product
        self.rows, self.vectors = parse_tile(config["tile"])
        self.columns = self.vectors * sizes.lanes
        self.pack_a, self.pack_b = bool(config["pack_a"]), bool(config.get("pack_b", True))
        self.m, self.groups, self.n, self.waste = self._share(str(config["split"]))
        self.m_block = min(int(config["m_block"]), self.m)
        self.n_block = min(int(config["n_block"]), self.n)
        self.passes = self._passes(int(config["k_block"]))
        self.depth = self.product.depth / self.passes
        self.l2 = sizes.device.cache_bytes("L2") or 1 << 20
        self.far = self._far()
        self.order = 0.0005 * int(config.get("unroll", 1))

    def time(self) -> float:
        """Relative time of one thread."""
        steps = self.rows * self.vectors
        inner = 1.0 + self._tile(steps) + self._in_place() + self._streaming()
        tiles = self.waste * (inner + self._writing(steps))
        return tiles + self._packing() + self._edges() + self.order

    def _far(self) -> float:
        """The share of the operands that lies outside L2, from 0 to 1."""
        p = self.product
        m = p.m * p.groups.count
        elements = p.batch * (m * p.n + (m + p.n) * p.depth)
        return min(1.0, max(0.0, elements * self.sizes.item / (8 * self.l2) - 0.5))

    def _share(self, split: str) -> tuple[int, int, int, float]:
        """Rows, groups and columns of one thread; and the factor of work that is wasted."""
        product, threads = self.product, self.sizes.device.units
        grid = grid_of(split)
        shared = {split: threads} if grid is None else {"rows": grid[0], "columns": grid[1]}
        waste, shares = 1.0, list[int]()
        for name, size, granule in (
            ("batch", product.batch, 1),
            ("rows", product.m, self.rows),
            ("groups", product.groups.count, 1),
            ("columns", product.n, self.columns),
        ):
            sharers = shared.get(name, 1)
            pieces = -(-size // granule)
            share = -(-pieces // sharers) * granule
            waste *= share * sharers / size
            shares.append(min(share, size))
        return shares[1], shares[2], shares[3], waste

    def _passes(self, k_block: int) -> int:
        """How many times C is written."""
        product = self.product
        if self.pack_a and self.pack_b:
            together = max(1, min(k_block // product.k, product.slices.count))
        else:
            together = 1
        return -(-product.slices.count // together) * -(-product.k // min(k_block, product.k))

    def _tile(self, steps: int) -> float:
        """The cost of the tile's size."""
        few = 0.02 * max(0, _FEW - steps) / 8 + 0.033 * max(0.0, 12 / steps - 1)
        many = 0.016 * self.far * max(0, steps - _MANY) / 8
        # The compiler needs registers of its own.
        left = registers_of(self.sizes.device) - (steps + self.vectors + 1)
        return few + many + (0.006 if left < 2 else 0.0)

    def _in_place(self) -> float:
        """Rows or steps that lie a multiple of a page apart compete for the same lines of L1."""
        a, b, item = self.product.a, self.product.b, self.sizes.item
        cost = 0.0
        if not self.pack_b:
            cost += _B_IN_PLACE + 0.006 * self.far
            cost += _PAGES_APART if b.row * item % _PAGE == 0 else 0.0
        if not self.pack_a and a.column != 1:
            cost += _A_BY_COLUMNS_IN_PLACE
        elif not self.pack_a and a.row * item % _PAGE == 0:
            cost += 0.029 * max(0, self.rows - 6)
        return cost

    def _streaming(self) -> float:
        """A panel of B that does not fit into L1 is read again for each tile and each block."""
        panel = self.depth * self.columns * self.sizes.item
        l1 = self.sizes.device.cache_bytes("L1") or 1 << 15
        again = 0.039 * self.sizes.item * self.sizes.lanes / 64 / self.rows if panel > l1 else 0.0
        blocks = 0.4 * self.far / self.m_block if self.m_block < self.m else 0.0
        return again + blocks

    def _writing(self, steps: int) -> float:
        cycles = _TILE
        if self.product.out.column != 1:
            cycles += _TRANSPOSED_COLUMN * self.columns
        again = _VECTOR_OF_C * self.passes if self.passes > 1 else 0.0
        c_bytes = self.m * self.groups * self.n_block * self.sizes.item
        distant = min(1.0, max(0.0, c_bytes / self.l2 - 0.5))
        again += _DISTANT_VECTOR_OF_C * (self.passes - 1) * distant
        return cycles / (steps * self.depth) + again / self.product.depth

    def _packing(self) -> float:
        """B is packed for all rows, and A for each block of columns."""
        product, item = self.product, self.sizes.item
        cycles = 0.0
        if self.pack_b:
            again = min(3.0, max(0.0, self.n_block * self.depth * item / self.l2 - 1.0))
            vectors = _VECTOR_OF_B + _SPILLED_VECTOR_OF_B * again
            cycles += vectors / (self.m * self.groups)
        if self.pack_a:
            element = _ELEMENT_OF_A if product.a.column == 1 else _ELEMENT_OF_A_BY_COLUMNS
            cycles += element * self.sizes.lanes / self.n_block
        return cycles

    def _edges(self) -> float:
        """The cost of tiles at the edge."""
        over_m, over_n = self.product.m % self.rows != 0, self.product.n % self.columns != 0
        lines = (self.rows / self.m if over_m else 0.0) + (self.columns / self.n if over_n else 0.0)
        packed = self.rows / self.m / self.vectors if over_m and not self.pack_a else 0.0
        return _EDGE_LINE * lines / self.depth + _EDGE_ELEMENT_OF_A * packed


# The search space of a packed matrix product, or of several that give the same result.

_RANKED = 256
_REPEATED = 0.004
"""Penalty in the order for each earlier config with the same code and split."""
_NOT_CODE = ("unroll",)
"""Build-time parameters that make little difference."""


class PackedSpace(ParameterSpace):
    """A parameter space that tries different tiles before many blocks of one tile."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        estimate: Callable[[Config], float],
        constraints: Sequence[ConstraintLike] = (),
        clip: Callable[[Config], Config] = lambda config: config,
        kinds: Sequence[str] = (),
    ) -> None:
        """`clip` gives an equivalent config whose blocks are cut to the size of the problem.

        `kinds` are run-time parameters whose values are tried early, like different tiles.
        """
        super().__init__(parameters, constraints, order=estimate, default_by_order=True)
        self.estimate, self._clip, self._kinds = estimate, clip, kinds

    def promising(self, count: int) -> Sequence[Config]:
        """In the order of the estimate, with a penalty for each repetition of a tile.

        A config that runs the same as an earlier one comes last.
        """
        tried: Counter[Config] = Counter()
        known: set[Config] = set()
        ranked: list[tuple[bool, float, int, Config]] = []
        for config in super().promising(_RANKED):
            names = [name for name in self.build_part(config) if name not in _NOT_CODE]
            kind = Config({name: config[name] for name in (*names, *self._kinds)})
            same = self._clip(config)
            cost = self.estimate(config) + _REPEATED * tried[kind]
            ranked.append((same in known, cost, len(ranked), config))
            tried[kind] += same not in known
            known.add(same)
        return [config for *_, config in sorted(ranked, key=lambda entry: entry[:3])[:count]]


def product_space(product: GemmProduct, dtype: str, device: Device) -> PackedSpace:
    """The space of one product whose B is packed."""
    sizes = _sizes(product, dtype, device)
    return PackedSpace(
        product_parameters(product, device),
        lambda config: estimate(config, sizes),
        clip=lambda config: clipped(config, sizes),
        kinds=("split",),
    )


def choice_space(
    name: str, products: Mapping[str, GemmProduct], dtype: str, device: Device
) -> PackedSpace:
    """The space of several products, chosen by a parameter `name`; B may be read in place.

    A constraint limits values that only some of the products allow to these products.
    """
    of_each = {
        choice: {p.name: p for p in _in_place_too(product, device)}
        for choice, product in products.items()
    }
    parameters: list[Parameter] = []
    constraints: list[str] = []
    if len(products) > 1:
        parameters.append(Parameter(name, tuple(products)))
    for parameter in next(iter(of_each.values())):
        versions = {choice: own[parameter] for choice, own in of_each.items()}
        values = tuple(dict.fromkeys(v for version in versions.values() for v in version.values))
        parameters.append(Parameter(parameter, values, stage=next(iter(versions.values())).stage))
        for choice, version in versions.items():
            if len(version.values) < len(values):
                allowed = " or ".join(f"{parameter} == {v!r}" for v in version.values)
                constraints.append(f"{name} != {choice!r} or {allowed}")
    sizes = {choice: _sizes(product, dtype, device) for choice, product in products.items()}
    only = next(iter(products))

    def of(config: Config) -> ProductSizes:
        return sizes[str(config.get(name, only))]

    return PackedSpace(
        parameters,
        lambda config: estimate(config, of(config)),
        constraints,
        lambda config: clipped(config, of(config)),
        ("split",),
    )


def _in_place_too(product: GemmProduct, device: Device) -> list[Parameter]:
    parameters = [p for p in product_parameters(product, device) if p.name not in _NOT_CODE]
    return [*parameters[:2], Parameter("pack_b", product.packs_b), *parameters[2:]]


def _sizes(product: GemmProduct, dtype: str, device: Device) -> ProductSizes:
    item = ITEM_BYTES[dtype]
    return ProductSizes(product, device.vector_bytes // item, item, device)


# The solver.

_LARGE = 2.0
"""Size in units of L2 above which a nest may be a little faster, or much slower if pages are huge
and the rows of its operands map to the same cache sets."""
_WORTH_PACKING = 33
"""With fewer rows or columns, packing takes as long as the product."""


class PackedSolver(LlvmSolver):
    """Builds the tile and the epilogue; sets blocks and the split among threads at run time."""

    name = "packed"
    version = 2

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts matrix products on CPUs."""
        return refusal_of(problem, device)

    def promise(self, problem: Problem, device: Device) -> float:
        """Higher where a plain loop nest would miss the caches or could not read vectors."""
        product = product_of(problem)
        m, n = product.m, product.n
        if min(m, n) == 1:
            return 0.0
        large = bytes_moved(problem) / (device.cache_bytes("L2") or 1 << 20)
        is_turned = product.a.column != 1 or product.b.column != 1
        if is_turned or (large > _LARGE and min(m, n) >= _WORTH_PACKING):
            return 2.0
        return 0.5 if large > 0.25 else 0.0

    def space(self, problem: Problem, device: Device) -> PackedSpace:
        """Tiles that fit the registers and blocks that fit the caches, best estimate first."""
        return product_space(product_of(problem), problem.dtype, device)

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """The code does not depend on the shape."""
        recipe = product_recipe(product_of(problem), problem.dtype, device, config)
        return self.source(generate(recipe), device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        return product_stage(product_of(problem), problem.dtype, device, config).slots
