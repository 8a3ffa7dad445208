"""Packed products as stages: any strides, sums over two levels, accumulation."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import Config
from skipjack.native import Slots, cpu, llvm
from skipjack.solvers.cpu.gemm import GemmProduct, Groups, Operand, Slices, product_stage
from skipjack.solvers.cpu.gemm.stage import product_parameters

LOADER = llvm.Loader()
CONFIG = Config(tile="4x2", unroll=2, pack_a=True, m_block=8, k_block=64, n_block=40, split="rows")


def run(
    product: GemmProduct, config: Config, arrays: dict[str, npt.NDArray[Any]], threads: int = 1
) -> None:
    """Build and run on these arrays."""
    here = replace(cpu.detect(), units=threads)
    stage = product_stage(product, "f32", here, config)
    address = LOADER.load(llvm.compile_object(stage.write(), cpu.target_of(here)), "kernel")
    slots = Slots(stage.slots, arrays)
    llvm.c_function(address, ctypes.c_void_p)(slots.address)


def numbers(*shape: int) -> npt.NDArray[np.float32]:
    """Small whole numbers, so that sums are exact."""
    return np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("k_block", [7, 17, 64, 100])
@pytest.mark.parametrize("pack_a", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_run_over_all_slices(k_block: int, pack_a: bool, threads: int) -> None:
    images, m, n, k = 5, 22, 37, 17
    a, b = numbers(images, m, k), numbers(images, n, k)
    out = np.full((m, n), np.nan, np.float32)
    product = GemmProduct(
        *(1, m, n, k),
        Operand("a", 0, k),
        Operand("b", 0, 1, k),
        Operand("out", 0, n),
        slices=Slices(images, m * k, n * k),
    )
    run(
        product,
        CONFIG.replace(k_block=k_block, pack_a=pack_a),
        {"a": a, "b": b, "out": out},
        threads,
    )
    np.testing.assert_array_equal(out, np.einsum("imk,ink->mn", a, b))


@pytest.mark.parametrize("k_block", [16, 64])
def test_a_product_can_be_added_to_what_is_there(k_block: int) -> None:
    m, n, k = 13, 35, 40
    a, b, out = numbers(m, k), numbers(k, n), numbers(m, n)
    product = GemmProduct(
        1, m, n, k, Operand("a", 0, k), Operand("b", 0, n), Operand("out", 0, n), accumulate=True
    )
    wanted = out + a @ b
    run(product, CONFIG.replace(k_block=k_block), {"a": a, "b": b, "out": out})
    np.testing.assert_array_equal(out, wanted)


def test_blocks_of_k_may_be_as_long_as_all_slices() -> None:
    operand = Operand("a", 0, 49)
    product = GemmProduct(1, 64, 64, 49, operand, operand, operand, slices=Slices(16, 1, 1))
    by_name = {p.name: p.values for p in product_parameters(product, cpu.detect())}
    assert max(by_name["k_block"]) == 16 * 49  # type: ignore[type-var]


@pytest.mark.parametrize("k_block", [16, 64])
@pytest.mark.parametrize("pack_a", [False, True])
@pytest.mark.parametrize("pack_b", [False, True])
def test_an_upright_a_and_any_b_can_be_read_in_place(
    k_block: int, pack_a: bool, pack_b: bool
) -> None:
    m, n, k = 23, 75, 40
    a, b = numbers(k, m), numbers(k, n)
    out = np.full((m, n), np.nan, np.float32)
    product = GemmProduct(
        1, m, n, k, Operand("a", 0, 1, m), Operand("b", 0, n), Operand("out", 0, n)
    )
    config = CONFIG.replace(k_block=k_block, pack_a=pack_a, pack_b=pack_b)
    run(product, config, {"a": a, "b": b, "out": out})
    np.testing.assert_array_equal(out, a.T @ b)


@pytest.mark.parametrize("tile", ["4x2", "7x3", "12x2"])
@pytest.mark.parametrize("k_block", [16, 64])
@pytest.mark.parametrize("accumulate", [False, True])
def test_rows_of_the_output_may_lie_side_by_side(tile: str, k_block: int, accumulate: bool) -> None:
    m, n, k = 29, 70, 40
    a, b, out = numbers(m, k), numbers(k, n), numbers(n, m)
    operands = (Operand("a", 0, k), Operand("b", 0, n), Operand("out", 0, 1, m))
    wanted = a @ b + (out.T if accumulate else 0)
    product = GemmProduct(1, m, n, k, *operands, accumulate=accumulate)
    run(product, CONFIG.replace(tile=tile, k_block=k_block), {"a": a, "b": b, "out": out})
    np.testing.assert_array_equal(out.T, wanted)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("split", ["rows", "columns", "groups"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_may_have_two_levels(transposed: bool, split: str, threads: int) -> None:
    images, m, n, k = 5, 10, 37, 17
    a, b = numbers(images, k, m), numbers(k, n)
    out = np.full((images, n, m) if transposed else (images, m, n), np.nan, np.float32)
    product = GemmProduct(
        *(1, m, n, k),
        Operand("a", 0, 1, m),
        Operand("b", 0, n),
        Operand("out", 0, 1, m) if transposed else Operand("out", 0, n),
        groups=Groups(images, m * k, m * n),
    )
    run(product, CONFIG.replace(split=split), {"a": a, "b": b, "out": out}, threads)
    wanted = np.einsum("ikm,kn->imn", a, b)
    np.testing.assert_array_equal(out.swapaxes(1, 2) if transposed else out, wanted)
