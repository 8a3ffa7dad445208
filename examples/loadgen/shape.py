"""How large the network is; apart from it, as running it needs no ONNX package."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """How large the network is."""

    tokens: int = 8
    words: int = 1024
    width: int = 640
    heads: int = 10
    layers: int = 4
    classes: int = 32


ENCODER = Shape()
