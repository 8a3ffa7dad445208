"""Matrix products with the copy engine (TMA): simple or persistent, split K, widened operands."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from skipjack.core import Config, Device, Problem, Space, Tensor
from skipjack.gpu import KNOWN, Descriptor, Pointer, Step, Value, launch
from skipjack.solvers.gpu.gemm.product import (
    FACTORS,
    MatrixProduct,
    ProductEpilogue,
    TailTiles,
    join_spec,
    join_step,
    partial_sums,
    refusal_of_others,
    widen_spec,
    widen_step,
    widened_operand,
    widened_width,
)
from skipjack.solvers.gpu.gemm.spaces import TiledConfig, descriptor_space
from skipjack.solvers.gpu.triton import (
    EARLY_LAUNCH,
    Constant,
    KernelSpec,
    TritonSolver,
    descriptor_type,
    integer_type,
    pointer_type,
)

_MODULE = "skipjack.solvers.gpu.kernels.gemm.tma"


class DescriptorMatmul(TritonSolver):
    """Products whose operands TMA reads directly, or after a copy into wider rows."""

    name = "triton_matmul"
    dtypes = ("f16", "bf16", "tf32", "f8e4m3", "f8e5m2")
    kinds = ("cuda",)

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations, GPUs without TMA, and types that the matrix units lack."""
        if other := refusal_of_others(problem):
            return other
        limits = KNOWN.get(device.arch)
        if limits is None or not limits.tma:
            return f"{device.arch} has no copy engine (TMA)"
        if problem.dtype.startswith("f8") and problem.dtype not in limits.fp8:
            return f"the matrix units of {device.arch} do not take {problem.dtype}"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, their order, splits of K, warps and stages."""
        return descriptor_space(MatrixProduct.of(problem), device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The product, and the kernels before and after it."""
        product, point = MatrixProduct.of(problem), TiledConfig.of(config)
        specs = [_spec(product, point, device.units)]
        if odd := _misaligned(product, point):
            specs.insert(0, widen_spec(product, odd, point.early))
        if left := _tail_tiles(product, point, device.units):
            specs.append(left.spec(product, point.early))
        elif point.is_shared:
            specs.append(join_spec(product, point.splits, device.units, point.early))
        return specs

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Widen operands that TMA cannot read or reads slowly, multiply, add up the splits."""
        product, point = MatrixProduct.of(problem), TiledConfig.of(config)
        steps: list[Step] = []
        if odd := _misaligned(product, point):
            steps.append(widen_step(product, odd))
        steps.append(_launch(product, point, device.units))
        if left := _tail_tiles(product, point, device.units):
            steps.append(left.step(product))
        elif point.is_shared:
            steps.append(join_step(product, point.splits, device.units))
        return steps


def _misaligned(product: MatrixProduct, point: TiledConfig) -> list[Tensor]:
    to = 128 if point.widen else 16
    return [one for one in (product.a, product.b) if not product.row_is_aligned(one, to)]


def _tail_tiles(product: MatrixProduct, point: TiledConfig, units: int) -> TailTiles | None:
    """The tiles that are split because they would leave units idle; None if there are none."""
    tiles = ceil(product.m / point.tile_m) * ceil(product.n / point.tile_n) * product.batch
    if not point.persistent or point.splits == 1 or tiles % units == 0:
        return None
    left = tiles % units if tiles > units else 0
    # With fewer tiles than units there is only one round, and all its tiles are split.
    left = left or tiles
    return TailTiles(point.tile_m, point.tile_n, point.group, point.splits, tiles - left, left)


def _operand(product: MatrixProduct, point: TiledConfig, tensor: Tensor) -> Descriptor:
    """The TMA descriptor of an operand; a batch of one needs no axis."""
    if tensor not in _misaligned(product, point):
        return Descriptor(Pointer(tensor.name), tensor.shape, tensor.strides)
    far = widened_width(product, tensor)
    lead = (tensor.shape[-2] * far,) if len(tensor.shape) == 3 else ()
    return Descriptor(widened_operand(product, tensor), tensor.shape, (*lead, far, 1))


def _stores_blocks(product: MatrixProduct, point: TiledConfig) -> bool:
    return not point.is_shared and product.row_is_aligned(product.out)


def _spec(product: MatrixProduct, point: TiledConfig, units: int) -> KernelSpec:
    lead = (1,) if len(product.a.shape) == 3 else ()
    finish, settings = ProductEpilogue(product, point.is_shared), product.settings
    m, n, k = point.tile_m, point.tile_n, point.tile_k
    out = pointer_type("fp32" if finish.partial else product.out_type)
    if _stores_blocks(product, point):
        out = descriptor_type(product.out_type, (*lead, m, n // point.pieces))
    sizes = {"M": product.m, "N": product.n, "K": product.k}
    if point.persistent:
        sizes["batches"] = product.batch
    follows = point.early and bool(_misaligned(product, point))
    left = _tail_tiles(product, point, units)
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
            "a": descriptor_type(product.type, (*lead, *((k, m) if settings.ta else (m, k)))),
            "b": descriptor_type(product.type, (*lead, *((n, k) if settings.tb else (k, n)))),
            **finish.arguments(),
            "out": out,
            **({"parts": pointer_type("fp32")} if left else {}),
            **{name: integer_type(size) for name, size in sizes.items()},
            **FACTORS,
        },
        constants,
        point.warps,
        point.stages,
        EARLY_LAUNCH if follows else {},
    )


def _launch(product: MatrixProduct, point: TiledConfig, units: int) -> Step:
    finish = ProductEpilogue(product, point.is_shared)
    tiles = -(-product.m // point.tile_m) * -(-product.n // point.tile_n)
    out: Value = partial_sums(product, point.splits) if finish.partial else Pointer("out")
    if _stores_blocks(product, point):
        out = Descriptor(Pointer("out"), product.out.shape, product.out.strides)
    sizes = [product.m, product.n, product.k]
    grid = (tiles * product.batch, point.splits, 1)
    if point.persistent:
        sizes.append(product.batch)
        grid = (min(units, tiles * product.batch), 1, 1)
    left = _tail_tiles(product, point, units)
    if left:
        grid = (units, 1, 1)
    more = [left.parts] if left else []
    a, b = (_operand(product, point, one) for one in (product.a, product.b))
    return launch("product", grid, (a, b, *finish.values(), out, *more, *sizes, *finish.factors()))
