"""The matrix product of Triton's tutorial, and the configs that all autotuners are given."""

from __future__ import annotations

from itertools import product
from typing import Any

import triton
import triton.language as tl

SETTINGS = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_stages", "num_warps")
CONFIGS = [
    dict(zip(SETTINGS, (m, n, k, 8, stages, warps), strict=True))
    for m, n, k, stages, warps in product((64, 128, 256), (64, 128, 256), (32, 64), (3, 4), (4, 8))
]
"""72, of which some need more shared memory or registers than there are."""


def as_triton(settings: dict[str, int]) -> Any:
    """A ``triton.Config``."""
    constants = {name: value for name, value in settings.items() if name.isupper()}
    return triton.Config(
        constants, num_stages=settings["num_stages"], num_warps=settings["num_warps"]
    )


def as_settings(config: Any) -> dict[str, int]:
    """The inverse of `as_triton`."""
    return {name: config.all_kwargs()[name] for name in SETTINGS}


@triton.jit  # type: ignore[untyped-decorator]
def matmul(  # type: ignore[no-untyped-def]
    a,
    b,
    out,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """``out = a @ b``, blocks in groups of rows for the cache."""
    block = tl.program_id(0)
    rows, columns = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    in_group = GROUP_M * columns
    first = block // in_group * GROUP_M
    height = min(rows - first, GROUP_M)
    row = first + block % in_group % height
    column = block % in_group // height
    at_m = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % m
    at_n = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % n
    at_k = tl.arange(0, BLOCK_K)
    a_at = a + at_m[:, None] * stride_am + at_k[None, :] * stride_ak
    b_at = b + at_k[:, None] * stride_bk + at_n[None, :] * stride_bn
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(k, BLOCK_K)):
        left = tl.load(a_at, mask=at_k[None, :] < k - step * BLOCK_K, other=0.0)
        right = tl.load(b_at, mask=at_k[:, None] < k - step * BLOCK_K, other=0.0)
        total = tl.dot(left, right, total)
        a_at += BLOCK_K * stride_ak
        b_at += BLOCK_K * stride_bk
    to_m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    to_n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (to_m[:, None] < m) & (to_n[None, :] < n)
    place = out + to_m[:, None] * stride_cm + to_n[None, :] * stride_cn
    tl.store(place, total.to(tl.float16), mask=inside)


def call(kernel: Any, a: Any, b: Any, out: Any, **settings: int) -> None:
    """Launch it, or its autotuner, on torch's tensors."""
    m, k = a.shape
    n = b.shape[1]

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)

    strides = (*a.stride(), *b.stride(), *out.stride())
    kernel[grid](a, b, out, m, n, k, *strides, **settings)
