"""The key of our problem that a find key means, without building the problem: for long lists."""

from __future__ import annotations

from functools import lru_cache

from skipjack.interop.find_db_key import TYPES
from skipjack.interop.miopen.keys import FindKey
from skipjack.operations.conv_geometry import result_size
from skipjack.operations.convolution import Convolution

_OPERATIONS = {spatial: Convolution(spatial) for spatial in (2, 3)}
_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}
_LETTERS = {2: ("hw", "yx", "pq", "uv", "lj"), 3: ("dhw", "zyx", "opq", "tuv", "ilj")}


def problem_text(key: FindKey) -> str | None:
    """The same as the key of what `parse_find_db` gives; None where that is no problem of ours."""
    name, end = _words(key.spatial, key.layouts, key.type, key.direction)
    axes = _axes(key.geometry)
    channels, features, groups = key.image[0], key.result[0], key.groups
    if not (name and axes) or key.bias or key.casts or min(key.n, channels, features, groups) < 1:
        return None
    if channels % groups or features % groups:
        return None
    sizes, steps = axes
    grouped = f"g{groups}" if groups != 1 else ""
    return f"{name}:n{key.n}c{channels}{sizes}k{features}{steps}{grouped}{end}"


@lru_cache(maxsize=256)
def _words(spatial: int, layouts: tuple[str, ...], kind: str, direction: str) -> tuple[str, str]:
    """How the text begins and ends; empty where the arrays are none of ours."""
    operation = _OPERATIONS[spatial]
    dtype, layout = TYPES.get(kind, ""), layouts[0]
    if dtype not in operation.dtypes or layout not in operation.layouts or len(set(layouts)) > 1:
        return "", ""
    return operation.name, f":{dtype}:{layout}:{_DIRECTIONS[direction]}"


@lru_cache(maxsize=4096)
def _axes(geometry: tuple[tuple[int, ...], ...]) -> tuple[str, str] | None:
    """The image's sizes and all that follows the features; None where they contradict."""
    image, taps, result, pad, stride, dilation = geometry
    if min(*image, *result, *taps, *stride, *dilation) < 1:
        return None
    if result != tuple(map(result_size, image, taps, pad, stride, dilation)):
        return None
    letters = _LETTERS[len(image)]
    steps = [
        *map("{}{}".format, letters[1], taps),
        *(f"{at}{size}" for at, size in zip(letters[2], pad, strict=True) if size),
        *(f"{at}{size}" for at, size in zip(letters[3], stride, strict=True) if size != 1),
        *(f"{at}{size}" for at, size in zip(letters[4], dilation, strict=True) if size != 1),
    ]
    return "".join(map("{}{}".format, letters[0], image)), "".join(steps)
