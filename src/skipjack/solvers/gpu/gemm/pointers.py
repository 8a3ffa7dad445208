"""Matrix products by plain addresses, for any GPU, and thin ones at the speed of memory."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core import Config, Device, Problem, Space
from skipjack.gpu import KNOWN, Step, launch
from skipjack.solvers.gpu.gemm.product import (
    FACTORS,
    MatrixProduct,
    ProductEpilogue,
    join_spec,
    join_step,
    partial_sums,
    refusal_of_others,
)
from skipjack.solvers.gpu.gemm.spaces import ThinConfig, TiledConfig, address_space, thin_space
from skipjack.solvers.gpu.triton import KernelSpec, TritonSolver, integer_type, pointer_type

_TILED = "skipjack.solvers.gpu.kernels.gemm.pointers"
_THIN = "skipjack.solvers.gpu.kernels.gemm.pointers"
MOST_THIN_ROWS = 8


class AddressMatmul(TritonSolver):
    """Products with any alignment and storage order."""

    name = "triton_addresses"
    dtypes = ("f16", "bf16", "f32", "tf32", "f8e4m3", "f8e5m2")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations, unknown GPUs, and types that the matrix units lack."""
        if other := refusal_of_others(problem):
            return other
        limits = KNOWN.get(device.arch)
        if limits is None:
            return f"the limits of {device.arch} are not known"
        if problem.dtype.startswith("f8") and problem.dtype not in limits.fp8:
            return f"the matrix units of {device.arch} do not take {problem.dtype}"
        return ""

    def promise(self, problem: Problem, device: Device) -> float:
        """Compared with the copy engine (TMA), it is worth a few trials for small products."""
        product = MatrixProduct.of(problem)
        return 0.5 if min(product.m, product.n) <= 64 or product.flops < 1e10 else 0.0

    def space(self, problem: Problem, device: Device) -> Space:
        """Tiles, their order, splits of K, warps and stages."""
        return address_space(MatrixProduct.of(problem), device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The product, and the sum of its splits."""
        product, point = MatrixProduct.of(problem), TiledConfig.of(config)
        finish, settings = ProductEpilogue(product, point.splits > 1), product.settings
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
            "a": pointer_type(product.type),
            "b": pointer_type(product.type),
            **finish.arguments(),
            "out": pointer_type("fp32" if finish.partial else product.out_type),
            "M": integer_type(product.m),
            "N": integer_type(product.n),
            "K": integer_type(product.k),
            "lda": integer_type(product.a.shape[-1]),
            "ldb": integer_type(product.b.shape[-1]),
            **FACTORS,
        }
        spec = KernelSpec(
            "product", _TILED, "product", arguments, constants, point.warps, point.stages
        )
        return [spec, *_joins(product, point, device.units)]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Multiply, then add up the splits."""
        product, point = MatrixProduct.of(problem), TiledConfig.of(config)
        finish = ProductEpilogue(product, point.splits > 1)
        tiles = -(-product.m // point.tile_m) * -(-product.n // point.tile_n)
        sizes = (product.m, product.n, product.k, product.a.shape[-1], product.b.shape[-1])
        out = partial_sums(product, point.splits) if finish.partial else "out"
        step = launch(
            "product",
            (tiles * product.batch, point.splits),
            ("a", "b", *finish.values(), out, *sizes, *finish.factors()),
        )
        return [step, *_join_steps(product, point.splits, device.units)]


class ThinMatmul(TritonSolver):
    """Products with few rows: the second operand is read once, without matrix units."""

    name = "triton_thin"
    dtypes = ("f16", "bf16", "f32", "tf32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse more rows than registers can sum, and a transposed first operand."""
        if other := refusal_of_others(problem):
            return other
        if device.arch not in KNOWN:
            return f"the limits of {device.arch} are not known"
        product = MatrixProduct.of(problem)
        if product.m > MOST_THIN_ROWS:
            return f"it is for at most {MOST_THIN_ROWS} rows, not {product.m}"
        return "the first operand is stored transposed" if product.settings.ta else ""

    def promise(self, problem: Problem, device: Device) -> float:
        """Without TMA the best solver for one row; otherwise worth some trials."""
        if MatrixProduct.of(problem).m > 2:
            return 0.5
        return 0.8 if KNOWN[device.arch].tma else 1.5

    def space(self, problem: Problem, device: Device) -> Space:
        """Blocks, splits of K, warps and stages."""
        return thin_space(MatrixProduct.of(problem), device)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The product, and the sum of its splits."""
        product, point = MatrixProduct.of(problem), ThinConfig.of(config)
        finish = ProductEpilogue(product, point.splits > 1)
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
            "a": pointer_type(product.type),
            "b": pointer_type(product.type),
            **finish.arguments(),
            "out": pointer_type("fp32" if finish.partial else product.out_type),
            "M": integer_type(product.m),
            "N": integer_type(product.n),
            "K": integer_type(product.k),
            "ldb": integer_type(product.b.shape[-1]),
            **FACTORS,
        }
        spec = KernelSpec(
            "product", _THIN, "thin_product", arguments, constants, point.warps, point.stages
        )
        return [spec, *_joins(product, point, device.units)]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Multiply, then add up the splits."""
        product, point = MatrixProduct.of(problem), ThinConfig.of(config)
        finish = ProductEpilogue(product, point.splits > 1)
        out = partial_sums(product, point.splits) if finish.partial else "out"
        sizes = (product.m, product.n, product.k, product.b.shape[-1])
        step = launch(
            "product",
            (-(-product.n // point.tile_n) * product.batch, point.splits),
            ("a", "b", *finish.values(), out, *sizes, *finish.factors()),
        )
        return [step, *_join_steps(product, point.splits, device.units)]


def _alignment(size: int) -> int:
    """The largest power of two up to 16 that divides a size."""
    return next(by for by in (16, 8, 4, 2, 1) if size % by == 0)


def _joins(product: MatrixProduct, point: TiledConfig | ThinConfig, units: int) -> list[KernelSpec]:
    splits = point.splits
    return [join_spec(product, splits, units, point.early)] if splits > 1 else []


def _join_steps(product: MatrixProduct, splits: int, units: int) -> list[Step]:
    return [join_step(product, splits, units)] if splits > 1 else []
