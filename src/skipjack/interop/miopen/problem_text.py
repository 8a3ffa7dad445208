"""The key of our problem that a find key means, without building the problem: for long lists."""

from __future__ import annotations

from skipjack.interop.find_db_key import TYPES
from skipjack.interop.miopen.keys import FindKey
from skipjack.operations.convolution import Convolution

_OPERATIONS = {spatial: Convolution(spatial) for spatial in (2, 3)}
_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}
_LETTERS = {2: ("hw", "yx", "pq", "uv", "lj"), 3: ("dhw", "zyx", "opq", "tuv", "ilj")}


def problem_text(key: FindKey) -> str | None:
    """The same as the key of what `parse_find_db` gives; None where that is no problem of ours."""
    operation = _OPERATIONS[key.spatial]
    dtype, layout = TYPES.get(key.type, ""), key.layouts[0]
    if dtype not in operation.dtypes or layout not in operation.layouts:
        return None
    if len(set(key.layouts)) > 1 or key.bias or key.casts or not _is_sound(key):
        return None
    image, result = (key.second, key.first) if key.direction != "F" else (key.first, key.second)
    sizes, taps, pads, strides, dilations = _LETTERS[key.spatial]
    shape = [
        f"n{key.n}c{image[0]}",
        *map("{}{}".format, sizes, image[1:]),
        f"k{result[0]}",
        *map("{}{}".format, taps, key.filter),
        *(f"{at}{size}" for at, size in zip(pads, key.pad, strict=True) if size),
        *(f"{at}{size}" for at, size in zip(strides, key.stride, strict=True) if size != 1),
        *(f"{at}{size}" for at, size in zip(dilations, key.dilation, strict=True) if size != 1),
        f"g{key.groups}" if key.groups != 1 else "",
    ]
    return f"{operation.name}:{''.join(shape)}:{dtype}:{layout}:{_DIRECTIONS[key.direction]}"


def _is_sound(key: FindKey) -> bool:
    sizes = (*key.first, *key.second, *key.filter, *key.stride, *key.dilation, key.n, key.groups)
    if min(sizes) < 1 or key.first[0] % key.groups or key.second[0] % key.groups:
        return False
    image = key.first if key.direction == "F" else key.second
    steps = zip(image[1:], key.filter, key.pad, key.dilation, strict=True)
    fits = all(size + 2 * pad > (taps - 1) * dilation for size, taps, pad, dilation in steps)
    return fits and not key.excess
