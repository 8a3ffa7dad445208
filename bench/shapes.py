"""The matrix products that are measured: LoopTune's 25 test shapes, squares, layers, odd sizes."""

from __future__ import annotations

import argparse
import re
from typing import NamedTuple

from skipjack.core import Problem
from skipjack.operations import parse


class Shape(NamedTuple):
    """``C[M,N] = A[M,K] B[K,N]``."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """``M_N_K``."""
        return f"{self.m}_{self.n}_{self.k}"

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each index triple."""
        return 2 * self.m * self.n * self.k

    @property
    def problem(self) -> Problem:
        """The same as Skipjack's problem, in float32."""
        return parse(f"matmul:{self.m}x{self.n}x{self.k}", "f32")


def parse_shape(text: str) -> Shape:
    """Read ``M_N_K``."""
    match = re.fullmatch(r"([1-9]\d*)_([1-9]\d*)_([1-9]\d*)", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"not a shape M_N_K: {text!r}")
    return Shape(int(match[1]), int(match[2]), int(match[3]))


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """Read a comma-separated list of shapes."""
    return tuple(parse_shape(part) for part in text.split(","))


ALL = parse_shapes(
    "112_208_256,112_224_128,112_256_64,112_256_80,128_160_224,"
    "160_224_192,176_128_160,176_144_160,176_192_160,192_192_80,"
    "192_256_256,208_128_256,208_160_80,208_80_224,224_112_176,"
    "224_208_224,224_224_256,224_64_240,240_208_144,256_160_112,"
    "64_240_64,80_176_224,96_160_256,96_224_240,96_240_128"
)

SQUARES = parse_shapes("512_512_512,1024_1024_1024,2048_2048_2048")

LAYERS = {
    parse_shape(text): origin
    for text, origin in (
        ("128_768_768", "BERT-base, attention output, 128 tokens"),
        ("128_3072_768", "BERT-base, feed-forward up, 128 tokens"),
        ("128_768_3072", "BERT-base, feed-forward down, 128 tokens"),
        ("197_3072_768", "ViT-B/16, feed-forward up, one image"),
        ("512_1024_1024", "BERT-large, attention output, 512 tokens"),
        ("2048_128_2048", "Llama 2 7B, one head's weights times values, 2048 tokens"),
        ("1_4096_4096", "Llama 2 7B, attention output, one token"),
        ("8_4096_4096", "Llama 2 7B, attention output, 8 tokens"),
        ("16_11008_4096", "Llama 2 7B, feed-forward up, 16 tokens"),
        ("32_4096_11008", "Llama 2 7B, feed-forward down, 32 tokens"),
    )
}
"""Tokens x outputs x inputs of well-known transformers' layers, and where each is from."""

ODD = parse_shapes(
    "127_131_137,257_263_269,509_521_523,1009_1013_1019,1_1_100003,"
    "4096_4096_17,1_1009_1013,1013_1_1009,997_3_991,31_2003_61"
)
"""Primes, and sizes of one."""

LARGE = {"square": SQUARES, "transformer": tuple(LAYERS), "odd": ODD}
QUICK_LARGE = {
    "square": SQUARES[:1],
    "transformer": parse_shapes("128_768_768,2048_128_2048,1_4096_4096"),
    "odd": parse_shapes("257_263_269,1_1009_1013,997_3_991"),
}

# Every third: small and large, with and without tails in N, short and long K.
QUICK = ALL[::3][:8]
