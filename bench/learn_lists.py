"""Lists of problems to learn from, drawn by a seed: as diverse as programs may ask for.

::

    python bench/learn_lists.py products --count 250 > bench/lists/learn_products_drawn.txt
    python bench/learn_lists.py long-products --count 120 > bench/lists/learn_products_long.txt
    python bench/learn_lists.py convs --count 160 > bench/lists/learn_convs_drawn.txt
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import log2

import numpy as np

MOST_FLOPS, FEWEST_FLOPS = 1.5e9, 2.0**15
MOST_ELEMENTS = 1 << 23
"""Of each operand."""

Rng = np.random.Generator


def _size(rng: Rng, low: int, high: int) -> int:
    """Log-uniform; two of three are multiples of 4 to 64, as sizes in programs often are."""
    drawn = 2 ** rng.uniform(log2(low), log2(high))
    step = int(rng.choice([1, 1, 4, 8, 16, 32, 64, 64]))
    return max(low, round(drawn / step) * step) if drawn > step else max(1, round(drawn))


def products(rng: Rng) -> Iterator[str]:
    """Matrix products: general ones, few rows as in decoding, few columns, short sums."""
    while True:
        kind = rng.choice(["general", "rows", "columns", "depth"], p=[0.5, 0.25, 0.15, 0.1])
        m, n, k = _size(rng, 16, 2048), _size(rng, 16, 4096), _size(rng, 16, 4096)
        if kind == "rows":
            m = int(rng.choice([1, 1, 2, 3, 4, 6, 8, 10, 12, 16]))
        elif kind == "columns":
            n = int(rng.choice([1, 1, 2, 3, 4, 8, 10, 12, 16]))
        elif kind == "depth":
            k = int(rng.integers(1, 16))
        flops = 2.0 * m * n * k
        if not FEWEST_FLOPS <= flops <= MOST_FLOPS or max(m * k, k * n, m * n) > MOST_ELEMENTS:
            continue
        turned = rng.choice(["", "/tb=1", "/ta=1"], p=[0.55, 0.35, 0.1])
        yield f"matmul:{m}x{n}x{k}{turned}"


def long_products(rng: Rng) -> Iterator[str]:
    """Products with a long sum, and of few rows with a large matrix, as in decoding."""
    while True:
        if rng.random() < 0.5:
            m, n, k = _size(rng, 16, 512), _size(rng, 16, 512), _size(rng, 2048, 16384)
        else:
            m, n, k = int(rng.integers(1, 17)), _size(rng, 512, 8192), _size(rng, 512, 8192)
        if 2.0 * m * n * k > 2 * MOST_FLOPS or max(m * k, k * n, m * n) > 2 * MOST_ELEMENTS:
            continue
        turned = rng.choice(["", "/tb=1", "/ta=1"], p=[0.5, 0.4, 0.1])
        yield f"matmul:{m}x{n}x{k}{turned}"


def convs(rng: Rng) -> Iterator[str]:
    """Convolutions: of images, with 1 to 7 taps a side, strided, grouped and depthwise."""
    while True:
        side = int(rng.choice([7, 8, 10, 14, 16, 20, 28, 32, 40, 56, 64, 80, 112, 128, 224]))
        if rng.random() < 0.3:
            side = int(rng.integers(5, 200))
        c, k = _size(rng, 3, 1024), _size(rng, 4, 1024)
        taps = int(rng.choice([1, 3, 3, 5, 7], p=[0.35, 0.3, 0.15, 0.12, 0.08]))
        stride = int(rng.choice([1, 1, 1, 2]))
        pad = taps // 2 if rng.random() < 0.85 else 0
        images = int(rng.choice([1, 1, 1, 1, 2, 4, 8]))
        groups = 1
        if rng.random() < 0.2:
            groups, k = c, c
        elif rng.random() < 0.08:
            groups = int(rng.choice([2, 4, 8, 32]))
            c, k = -(-c // groups) * groups, -(-k // groups) * groups
        if side + 2 * pad < taps:
            continue
        out = (side + 2 * pad - taps) // stride + 1
        flops = 2.0 * images * k * out * out * (c // groups) * taps * taps
        sizes = images * c * side * side, images * k * out * out
        if not FEWEST_FLOPS * 4 <= flops <= MOST_FLOPS or max(sizes) > MOST_ELEMENTS:
            continue
        more = f"p{pad}q{pad}" if pad else ""
        more += f"u{stride}v{stride}" if stride > 1 else ""
        more += f"g{groups}" if groups > 1 else ""
        yield f"conv2d:n{images}c{c}h{side}w{side}k{k}y{taps}x{taps}{more}"


def gpu_products(rng: Rng) -> Iterator[str]:
    """Products of 16-bit floats: large ones, few rows, few rows and columns with a long sum."""
    while True:
        kind = rng.choice(["general", "rows", "depth", "small"], p=[0.5, 0.25, 0.15, 0.1])
        m, n, k = _size(rng, 64, 8192), _size(rng, 64, 16384), _size(rng, 64, 16384)
        if kind == "rows":
            m = int(rng.choice([1, 2, 4, 8, 16, 24, 32, 48, 64]))
        elif kind == "depth":
            m, n, k = _size(rng, 16, 512), _size(rng, 16, 512), _size(rng, 8192, 131072)
        elif kind == "small":
            m, n, k = _size(rng, 16, 512), _size(rng, 16, 512), _size(rng, 16, 1024)
        flops = 2.0 * m * n * k
        if not 1e6 <= flops <= 4e11 or max(m * k, k * n, m * n) > 1 << 28:
            continue
        turned = rng.choice(["", "/tb=1", "/ta=1"], p=[0.4, 0.5, 0.1])
        yield f"matmul:{m}x{n}x{k}{turned}:{rng.choice(['f16', 'bf16'])}"


def gpu_convs(rng: Rng) -> Iterator[str]:
    """Convolutions in f16 as networks have them, also their gradients."""
    while True:
        side = int(rng.choice([7, 8, 14, 16, 20, 28, 32, 40, 56, 64, 80, 112, 128, 224]))
        c, k = _size(rng, 3, 1024), _size(rng, 8, 1024)
        taps = int(rng.choice([1, 3, 5, 7], p=[0.35, 0.45, 0.1, 0.1]))
        stride = int(rng.choice([1, 1, 1, 2]))
        images = int(rng.choice([1, 2, 4, 8, 16, 32, 64]))
        groups, direction = 1, str(rng.choice(["fwd", "bwd", "wrw"], p=[0.7, 0.15, 0.15]))
        if rng.random() < 0.15:
            groups, k = c, c
        pad = taps // 2
        flops = 2.0 * images * k * (side // stride) ** 2 * (c // groups) * taps * taps
        if not 1e7 <= flops <= 2e11 or images * max(c, k) * side * side > 1 << 27:
            continue
        more = f"p{pad}q{pad}" if pad else ""
        more += f"u{stride}v{stride}" if stride > 1 else ""
        more += f"g{groups}" if groups > 1 else ""
        layout = str(rng.choice(["NHWC", "NHWC", "NHWC", "NCHW"]))
        head = f"conv2d:n{images}c{c}h{side}w{side}k{k}y{taps}x{taps}{more}"
        yield f"{head}:f16:{layout}:{direction}"


DRAWN: dict[str, Callable[[Rng], Iterator[str]]] = {
    "products": products,
    "long-products": long_products,
    "convs": convs,
    "gpu-products": gpu_products,
    "gpu-convs": gpu_convs,
}


def main() -> None:
    """Print a list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=DRAWN)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    print(f"# drawn: python bench/learn_lists.py {args.what} --count {args.count}")
    found: dict[str, None] = {}
    for key in DRAWN[args.what](np.random.default_rng(args.seed)):
        found[key] = None
        if len(found) == args.count:
            break
    print("\n".join(found))


if __name__ == "__main__":
    main()
