"""The matrix products that are measured: the 25 test shapes of LoopTune's evaluation."""

from __future__ import annotations

import argparse
import re
from typing import NamedTuple

from skipjack.core.problem import Problem
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

# Every third: small and large, with and without tails in N, short and long K.
QUICK = ALL[::3][:8]
