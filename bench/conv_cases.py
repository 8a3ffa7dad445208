"""The convolutions that are measured: all distinct layers of ResNet-50 and MobileNet v1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from skipjack.core import Problem
from skipjack.operations import parse

Kind = Literal["first", "1x1", "1x1 strided", "3x3", "depthwise"]
BATCHES = (1, 16)
DIRECTIONS = ("fwd", "bwd", "wrw")
LAYOUTS = ("NCHW", "NHWC")


@dataclass(frozen=True, slots=True)
class Layer:
    """A square filter on a square image."""

    network: str
    kind: Kind
    c: int
    size: int
    k: int
    filter: int = 1
    stride: int = 1

    @property
    def name(self) -> str:
        """``3x3s2 64-128 @56``: the filter, its stride, channels, the image's side."""
        stride = f"s{self.stride}" if self.stride > 1 else ""
        channels = f"dw {self.c}" if self.kind == "depthwise" else f"{self.c}-{self.k}"
        return f"{self.filter}x{self.filter}{stride} {channels} @{self.size}"

    def key(self, batch: int) -> str:
        """Short form of its problem."""
        half, step = self.filter // 2, self.stride
        groups = self.c if self.kind == "depthwise" else 1
        return (
            f"conv2d:n{batch}c{self.c}h{self.size}w{self.size}k{self.k}"
            f"y{self.filter}x{self.filter}p{half}q{half}u{step}v{step}g{groups}"
        )


def _pointwise(network: str, *layers: tuple[int, int, int]) -> list[Layer]:
    """From channels, to channels, the image's side."""
    return [Layer(network, "1x1", c, size, k) for c, k, size in layers]


def _strided(*layers: tuple[int, int, int]) -> list[Layer]:
    return [Layer("ResNet-50", "1x1 strided", c, size, k, stride=2) for c, k, size in layers]


def _three(channels: int, size: int) -> Layer:
    return Layer("ResNet-50", "3x3", channels, size, channels, 3)


def _depthwise(*layers: tuple[int, int, int]) -> list[Layer]:
    """Channels, the image's side, the stride."""
    return [Layer("MobileNet", "depthwise", c, size, c, 3, step) for c, size, step in layers]


RESNET = (
    Layer("ResNet-50", "first", 3, 224, 64, 7, 2),
    *_pointwise("ResNet-50", (64, 64, 56), (64, 256, 56), (256, 64, 56)),
    _three(64, 56),
    *_strided((256, 128, 56), (256, 512, 56)),
    *_pointwise("ResNet-50", (128, 512, 28), (512, 128, 28)),
    _three(128, 28),
    *_strided((512, 256, 28), (512, 1024, 28)),
    *_pointwise("ResNet-50", (256, 1024, 14), (1024, 256, 14)),
    _three(256, 14),
    *_strided((1024, 512, 14), (1024, 2048, 14)),
    *_pointwise("ResNet-50", (512, 2048, 7), (2048, 512, 7)),
    _three(512, 7),
)

MOBILENET = (
    Layer("MobileNet", "first", 3, 224, 32, 3, 2),
    *_depthwise((32, 112, 1), (64, 112, 2), (128, 56, 1), (128, 56, 2), (256, 28, 1)),
    *_depthwise((256, 28, 2), (512, 14, 1), (512, 14, 2), (1024, 7, 1)),
    *_pointwise("MobileNet", (32, 64, 112), (64, 128, 56), (128, 128, 56), (128, 256, 28)),
    *_pointwise("MobileNet", (256, 256, 28), (256, 512, 14), (512, 512, 14)),
    *_pointwise("MobileNet", (512, 1024, 7), (1024, 1024, 7)),
)

LAYERS = (*RESNET, *MOBILENET)

_QUICK = (
    *("7x7s2 3-64 @224", "1x1 64-256 @56", "3x3 64-64 @56", "1x1s2 512-1024 @28", "3x3 512-512 @7"),
    *("3x3s2 dw 64 @112", "3x3 dw 512 @14", "1x1 512-512 @14"),
)
QUICK_LAYERS = tuple(layer for layer in LAYERS if layer.name in _QUICK)


@dataclass(frozen=True, slots=True)
class Case:
    """A layer with a batch, in a direction and a layout."""

    layer: Layer
    batch: int
    direction: str
    layout: str

    @property
    def name(self) -> str:
        """In tables and in the journal of a run."""
        return f"{self.layer.name} n{self.batch} {self.direction} {self.layout}"

    @property
    def problem(self) -> Problem:
        """In float32."""
        key = self.layer.key(self.batch)
        return parse(key, "f32", layout=self.layout, direction=self.direction)


def cases(
    layers: Sequence[Layer] = LAYERS,
    batches: Sequence[int] = BATCHES,
    directions: Sequence[str] = DIRECTIONS,
    layouts: Sequence[str] = LAYOUTS,
) -> Iterator[Case]:
    """Every combination, layer by layer."""
    for layer, batch, direction, layout in product(layers, batches, directions, layouts):
        yield Case(layer, batch, direction, layout)


ALL = tuple(cases())


def _quick() -> Iterator[Case]:
    """Every third of some layers' cases, so that all values of each choice meet each other."""
    for number, layer in enumerate(QUICK_LAYERS):
        for at, case in enumerate(cases([layer])):
            if (at + at // 3 + number) % 3 == 0:
                yield case


QUICK = tuple(_quick())
