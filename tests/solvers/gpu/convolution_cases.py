"""Small convolutions that the interpreter computes as plans say: one process for all of them.

Run as a program; prints one line for each case that is wrong.
"""

import sys
from collections.abc import Iterator

from product_cases import BLOCK as PRODUCT_BLOCK
from product_cases import TILE as PRODUCT
from product_cases import wrong

Settings = dict[str, int | str | bool]
Case = tuple[str, str, Settings]
TILE: Settings = {"cols": 32, "depth": 16, "warps": 4, "stages": 2}
FILTER: Settings = {"k": 32, "c": 16, "warps": 4, "stages": 2}
BOX: Settings = {**TILE, "store": "box", "walk": 0}
PLANES: Settings = {**TILE, "cols": 16, "pixels": 16, "store": "planes", "walk": 0}
BOXED = {
    "3x3": "n2c16h4w6k24y3x3p1q1",
    "strided": "n1c16h6w4k24y3x3p1q1u2v2",
    "dilated": "n1c16h7w6k16y3x2p2q1l2j2",
    "strided 1x1": "n3c16h4w6k32y1x1u2v2",
    "grouped": "n1c32h4w5k64y3x3p1q0g2",
}
POINTWISE = "n2c32h4w4k16y1x1"
ANY = {
    "odd": "n2c3h7w5k5y5x3p2q1u2v1",
    "all at once": "n1c6h9w8k4y3x3p2q1u2v2l2j2g2",
}
DEPTHWISE = {"plain": "n1c8h6w7k8y3x3p1q1g8", "doubled": "n2c5h7w6k10y3x2p1q0u2v1l1j2g5"}


def cases() -> Iterator[Case]:
    """Solver, problem and settings."""
    for layout in ("NHWC", "NCHW"):
        yield from boxes(layout)
        yield from pointwise(layout)
        for shape in ANY.values():
            yield from gathered(f"conv2d:{shape}:{layout}")
        block: Settings = {"pixels": 16, "channels": 4, "warps": 4, "waves": 4}
        for shape in DEPTHWISE.values():
            for direction in ("fwd", "bwd", "wrw"):
                yield "triton_conv_depthwise", f"conv2d:{shape}:{layout}:{direction}", block
        first = f"conv2d:n2c3h7w6k16y5x3p2q1u2v2:{layout}"
        window: Settings = {"box": "1x2x8", "warps": 4, "stages": 2}
        yield "triton_conv_window", f"{first}:fwd", {**window, "cols": 16}
        folded: Settings = {**TILE, "box": "1x2x8" if layout == "NHWC" else "1x1x16"}
        yield "triton_conv_fold", f"conv2d:n2c3h7w15k16y5x3p2q1u2v2:{layout}:bwd", folded
        yield "triton_conv_window", f"{first}:wrw", {**window, "k": 16, "waves": 4}
        for direction in ("fwd", "bwd"):
            text = f"conv2d:n1c7h5w4k5y3x3p1q0:{layout}:{direction}:f32"
            yield "triton_conv_winograd", text, PRODUCT
    yield from gathered("conv2d:n2c16h4w6k24y3x3p1q1:NHWC")
    yield "triton_conv_gather", f"conv2d:{ANY['odd']}:NHWC:fwd:f32", {**TILE, "pixels": 32}


def gathered(key: str) -> Iterator[Case]:
    """By addresses, in all directions."""
    for direction in ("fwd", "bwd"):
        yield "triton_conv_gather", f"{key}:{direction}", {**TILE, "pixels": 32}
    yield "triton_conv_gather", f"{key}:wrw", {**FILTER, "pixels": 16, "waves": 4}


def boxes(layout: str) -> Iterator[Case]:
    """By the copy engine; planes are turned around, or written as they come."""
    for name, shape in BOXED.items():
        if layout == "NCHW" and name in ("dilated", "grouped"):
            continue
        key = f"conv2d:{shape}:{layout}"
        for direction in ("fwd", "bwd"):
            even: Settings = {**BOX, "box": "2x2x8", "cols": 16, "walk": int(name == "3x3")}
            yield "triton_conv_box", f"{key}:{direction}", even
            other: Settings = {**BOX, "store": "last" if layout == "NHWC" else "planes"}
            yield "triton_conv_box", f"{key}:{direction}", {**other, "box": "1x4x8"}
        for taps in (1, 3) if name in ("3x3", "strided") else (1,):
            for waves in (0, 12) if name == "3x3" else (12,):
                settings = {**FILTER, "box": "1x2x8", "taps": taps, "waves": waves}
                yield "triton_conv_box", f"{key}:wrw", settings


def pointwise(layout: str) -> Iterator[Case]:
    """1x1 filters: pixels are rows of a matrix, or planes multiplied as they lie."""
    key = f"conv2d:{POINTWISE}:{layout}"
    for direction in ("fwd", "bwd"):
        yield "triton_conv_box", f"{key}:{direction}", {**BOX, "box": "1x1x32"}
        if layout == "NCHW":
            yield "triton_conv_planes", f"{key}:{direction}", {**PLANES, "store": "box"}
            yield "triton_conv_planes", f"{key}:{direction}", {**PLANES, "walk": 1}
    if layout == "NHWC":
        for direction in ("fwd", "bwd", "wrw"):
            splits: Settings = {**PRODUCT_BLOCK, "splits": 2 if direction == "wrw" else 1}
            yield "triton_conv_matmul", f"{key}:{direction}", splits
    for waves in (0, 4):
        settings: Settings = {**FILTER, "box": "1x1x16", "taps": 1, "waves": waves}
        yield "triton_conv_box", f"{key}:wrw", settings
        if layout == "NCHW":
            yield "triton_conv_planes", f"{key}:wrw", {**FILTER, "pixels": 16, "waves": waves}


if __name__ == "__main__":
    count = 0
    for case in list(cases())[:: int(sys.argv[1])]:
        count += 1
        if not (times := wrong(*case)) <= 1:
            print(f"{case[0]} {case[1]} {case[2]}: {times:.1f} times what is allowed")
    print(f"{count} cases")
