"""Matrix products with the copy engine: tiles once or persistent, shares of K, widened operands."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.plan import Descriptor, Pointer, Step, Value, launch
from skipjack.solvers.gpu.matmul_spaces import TilePoint, descriptor_space
from skipjack.solvers.gpu.product import (
    FACTORS,
    Finish,
    Product,
    descriptor,
    number,
    other_than_product,
    parts,
    pointer,
)
from skipjack.solvers.gpu.product_steps import (
    EARLY,
    Leftover,
    join_spec,
    join_step,
    wide,
    widen_spec,
    widen_step,
    width,
)
from skipjack.solvers.gpu.spec import Constant, KernelSpec
from skipjack.solvers.gpu.triton_solver import TritonSolver

_MODULE = "skipjack.solvers.gpu.kernels.tiled_descriptors"


class DescriptorMatmul(TritonSolver):
    """Operands whose rows the copy engine can read as they are, or after a copy into wider rows."""

    name = "triton_matmul"
    dtypes = ("f16", "bf16", "tf32", "f8e4m3", "f8e5m2")
    kinds = ("cuda",)

    def refuses(self, problem: Problem, device: Device) -> str:
        """Other operations, GPUs without a copy engine, types that the matrix units lack."""
        if other := other_than_product(problem):
            return other
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine for blocks"
        if problem.dtype.startswith("f8") and problem.dtype not in limits.fp8:
            return f"the matrix units of {device.arch} do not take {problem.dtype}"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, their order, shares of K, warps and stages."""
        return descriptor_space(Product.of(problem), device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The product, and what comes before and after it."""
        product, point = Product.of(problem), TilePoint.of(config)
        specs = [_spec(product, point, device.units)]
        if odd := _odd(product, point):
            specs.insert(0, widen_spec(product, odd, point.early))
        if left := _leftover(product, point, device.units):
            specs.append(left.spec(product, point.early))
        elif point.is_shared:
            specs.append(join_spec(product, point.splits, device.units, point.early))
        return specs

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Widen what the copy engine reads badly or not at all, multiply, join shares."""
        product, point = Product.of(problem), TilePoint.of(config)
        steps: list[Step] = []
        if odd := _odd(product, point):
            steps.append(widen_step(product, odd))
        steps.append(_launch(product, point, device.units))
        if left := _leftover(product, point, device.units):
            steps.append(left.step(product))
        elif point.is_shared:
            steps.append(join_step(product, point.splits, device.units))
        return steps


def _odd(product: Product, point: TilePoint) -> list[Tensor]:
    to = 128 if point.widen else 16
    return [one for one in (product.a, product.b) if not product.row_is_aligned(one, to)]


def _leftover(product: Product, point: TilePoint, units: int) -> Leftover | None:
    """The tiles that are cut because they would leave units idle; none if there are no such."""
    tiles = ceil(product.m / point.tile_m) * ceil(product.n / point.tile_n) * product.batch
    if not point.persistent or point.splits == 1 or tiles % units == 0:
        return None
    left = tiles % units if tiles > units else 0
    # Fewer tiles than units: as many programs as tiles have no last round, so all units are used.
    left = left or tiles
    return Leftover(point.tile_m, point.tile_n, point.group, point.splits, tiles - left, left)


def _operand(product: Product, point: TilePoint, tensor: Tensor) -> Descriptor:
    """As the copy engine sees it; a batch of one needs no axis."""
    if tensor not in _odd(product, point):
        return Descriptor(Pointer(tensor.name), tensor.shape, tensor.strides)
    far = width(product, tensor)
    lead = (tensor.shape[-2] * far,) if len(tensor.shape) == 3 else ()
    return Descriptor(wide(product, tensor), tensor.shape, (*lead, far, 1))


def _stores_blocks(product: Product, point: TilePoint) -> bool:
    return not point.is_shared and product.row_is_aligned(product.out)


def _spec(product: Product, point: TilePoint, units: int) -> KernelSpec:
    lead = (1,) if len(product.a.shape) == 3 else ()
    finish, settings = Finish(product, point.is_shared), product.settings
    m, n, k = point.tile_m, point.tile_n, point.tile_k
    out = pointer("fp32" if finish.partial else product.out_type)
    if _stores_blocks(product, point):
        out = descriptor(product.out_type, (*lead, m, n // point.pieces))
    sizes = {"M": product.m, "N": product.n, "K": product.k}
    if point.persistent:
        sizes["batches"] = product.batch
    follows = point.early and bool(_odd(product, point))
    left = _leftover(product, point, units)
    walking: dict[str, Constant] = {"PARTIAL": finish.partial}
    if point.persistent:
        shares = left.shares if left else 1
        walking = {"FLATTEN": point.walk == "flat", "SHARES": shares}
        walking |= {} if left else {"parts": None}
    constants = {
        "TA": settings.ta,
        "TB": settings.tb,
        "SWAP": point.swap,
        "BATCHED": bool(lead),
        "STORE": int(_stores_blocks(product, point)),
        "PIECES": point.pieces,
        "BM": m,
        "BN": n,
        "BK": k,
        "GROUP": point.group,
        "PRECISION": product.precision,
        **finish.constants(),
        "FOLLOWS": follows,
        "FOLLOWED": point.early and (finish.partial or left is not None),
        **walking,
    }
    return KernelSpec(
        "product",
        _MODULE,
        "persistent_product" if point.persistent else "product",
        {
            "a": descriptor(product.type, (*lead, *((k, m) if settings.ta else (m, k)))),
            "b": descriptor(product.type, (*lead, *((n, k) if settings.tb else (k, n)))),
            **finish.arguments(),
            "out": out,
            **({"parts": pointer("fp32")} if left else {}),
            **{name: number(size) for name, size in sizes.items()},
            **FACTORS,
        },
        constants,
        point.warps,
        point.stages,
        EARLY if follows else {},
    )


def _launch(product: Product, point: TilePoint, units: int) -> Step:
    finish = Finish(product, point.is_shared)
    tiles = -(-product.m // point.tile_m) * -(-product.n // point.tile_n)
    out: Value = parts(product, point.splits) if finish.partial else Pointer("out")
    if _stores_blocks(product, point):
        out = Descriptor(Pointer("out"), product.out.shape, product.out.strides)
    sizes = [product.m, product.n, product.k]
    grid = (tiles * product.batch, point.splits, 1)
    if point.persistent:
        sizes.append(product.batch)
        grid = (min(units, tiles * product.batch), 1, 1)
    left = _leftover(product, point, units)
    if left:
        grid = (units, 1, 1)
    more = [left.parts] if left else []
    a, b = (_operand(product, point, one) for one in (product.a, product.b))
    return launch("product", grid, (a, b, *finish.values(), out, *more, *sizes, *finish.factors()))
