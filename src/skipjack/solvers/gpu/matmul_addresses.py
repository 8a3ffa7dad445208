"""Matrix products by plain addresses, for every GPU, and thin ones at the speed of memory."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.plan import Step, launch
from skipjack.solvers.gpu.matmul_spaces import (
    ThinPoint,
    TilePoint,
    address_space,
    thin_space,
)
from skipjack.solvers.gpu.product import (
    FACTORS,
    Finish,
    Product,
    number,
    other_than_product,
    parts,
    pointer,
)
from skipjack.solvers.gpu.product_steps import join_spec, join_step
from skipjack.solvers.gpu.spec import KernelSpec
from skipjack.solvers.gpu.triton_solver import TritonSolver

_TILED = "skipjack.solvers.gpu.kernels.tiled_addresses"
_THIN = "skipjack.solvers.gpu.kernels.thin"
MOST_THIN_ROWS = 8


class AddressMatmul(TritonSolver):
    """Any alignment, any storage order."""

    name = "triton_addresses"
    dtypes = ("f16", "bf16", "f32", "tf32", "f8e4m3", "f8e5m2")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Other operations, unknown GPUs, types that the matrix units lack."""
        if other := other_than_product(problem):
            return other
        limits = KNOWN.get(device.arch)
        if limits is None:
            return f"nothing is known of {device.arch}"
        if problem.dtype.startswith("f8") and problem.dtype not in limits.fp8:
            return f"the matrix units of {device.arch} do not take {problem.dtype}"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """Beside the copy engine it is worth a few trials where products are small."""
        product = Product.of(problem)
        return 0.5 if min(product.m, product.n) <= 64 or product.flops < 1e10 else 0.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, their order, shares of K, warps and stages."""
        return address_space(Product.of(problem), device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The product, and what joins its shares."""
        product, point = Product.of(problem), TilePoint.of(config)
        finish, settings = Finish(product, point.splits > 1), product.settings
        constants = {
            "TA": settings.ta,
            "TB": settings.tb,
            "BATCHED": product.batch > 1,
            "PARTIAL": finish.partial,
            "EVEN_K": product.k % point.tile_k == 0,
            "LONG": product.is_long,
            "ALIGN_A": _alignment(product.a.shape[-1]),
            "ALIGN_B": _alignment(product.b.shape[-1]),
            "ALIGN_K": _alignment(product.k),
            "BM": point.tile_m,
            "BN": point.tile_n,
            "BK": point.tile_k,
            "GROUP": point.group,
            "PRECISION": 1 if point.thirds else product.precision,
            "FOLLOWED": point.early and finish.partial,
            **finish.constants(),
        }
        arguments = {
            "a": pointer(product.type),
            "b": pointer(product.type),
            **finish.arguments(),
            "out": pointer("fp32" if finish.partial else product.out_type),
            "M": number(product.m),
            "N": number(product.n),
            "K": number(product.k),
            "lda": number(product.a.shape[-1]),
            "ldb": number(product.b.shape[-1]),
            **FACTORS,
        }
        spec = KernelSpec(
            "product", _TILED, "product", arguments, constants, point.warps, point.stages
        )
        return [spec, *_joins(product, point, device.units)]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Multiply, join shares."""
        product, point = Product.of(problem), TilePoint.of(config)
        finish = Finish(product, point.splits > 1)
        tiles = -(-product.m // point.tile_m) * -(-product.n // point.tile_n)
        sizes = (product.m, product.n, product.k, product.a.shape[-1], product.b.shape[-1])
        out = parts(product, point.splits) if finish.partial else "out"
        step = launch(
            "product",
            (tiles * product.batch, point.splits),
            ("a", "b", *finish.values(), out, *sizes, *finish.factors()),
        )
        return [step, *_join_steps(product, point.splits, device.units)]


class ThinMatmul(TritonSolver):
    """Few rows: the second operand is read once, and no matrix unit is needed."""

    name = "triton_thin"
    dtypes = ("f16", "bf16", "f32", "tf32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """More rows than registers can sum, and a first operand that is stored transposed."""
        if other := other_than_product(problem):
            return other
        if device.arch not in KNOWN:
            return f"nothing is known of {device.arch}"
        product = Product.of(problem)
        if product.m > MOST_THIN_ROWS:
            return f"it is for at most {MOST_THIN_ROWS} rows, not {product.m}"
        return "the first operand is stored transposed" if product.settings.ta else ""

    def promise(self, problem: Problem, device: Device) -> float:
        """Where nothing brings blocks by itself, the best for one row; else worth some trials."""
        if Product.of(problem).m > 2:
            return 0.5
        return 0.8 if KNOWN[device.arch].tma else 1.5

    def space(self, problem: Problem, device: Device) -> Space:
        """Blocks, shares of K, warps and stages."""
        return thin_space(Product.of(problem), device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The product, and what joins its shares."""
        product, point = Product.of(problem), ThinPoint.of(config)
        finish = Finish(product, point.splits > 1)
        even = product.k % point.tile_k == 0 and product.n % point.tile_n == 0
        constants = {
            "TB": product.settings.tb,
            "BATCHED": product.batch > 1,
            "PARTIAL": finish.partial,
            "EVEN": even,
            "LONG": product.is_long,
            "STAGES": point.stages,
            "FOLLOWED": point.early and finish.partial,
            "BM": 1 << (product.m - 1).bit_length(),
            "BN": point.tile_n,
            "BK": point.tile_k,
            **finish.constants(),
        }
        arguments = {
            "a": pointer(product.type),
            "b": pointer(product.type),
            **finish.arguments(),
            "out": pointer("fp32" if finish.partial else product.out_type),
            "M": number(product.m),
            "N": number(product.n),
            "K": number(product.k),
            "ldb": number(product.b.shape[-1]),
            **FACTORS,
        }
        spec = KernelSpec(
            "product", _THIN, "product", arguments, constants, point.warps, point.stages
        )
        return [spec, *_joins(product, point, device.units)]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Multiply, join shares."""
        product, point = Product.of(problem), ThinPoint.of(config)
        finish = Finish(product, point.splits > 1)
        out = parts(product, point.splits) if finish.partial else "out"
        sizes = (product.m, product.n, product.k, product.b.shape[-1])
        step = launch(
            "product",
            (-(-product.n // point.tile_n) * product.batch, point.splits),
            ("a", "b", *finish.values(), out, *sizes, *finish.factors()),
        )
        return [step, *_join_steps(product, point.splits, device.units)]


def _alignment(size: int) -> int:
    """The largest power of two up to 16 that divides it."""
    return next(by for by in (16, 8, 4, 2, 1) if size % by == 0)


def _joins(product: Product, point: TilePoint | ThinPoint, units: int) -> list[KernelSpec]:
    splits = point.splits
    return [join_spec(product, splits, units, point.early)] if splits > 1 else []


def _join_steps(product: Product, splits: int, units: int) -> list[Step]:
    return [join_step(product, splits, units)] if splits > 1 else []
