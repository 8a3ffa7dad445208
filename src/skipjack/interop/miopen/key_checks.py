"""What can be wrong with a key that is built like one: sizes, groups, layouts and types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter
from typing import cast

from skipjack.interop.find_db_key import TYPES
from skipjack.interop.miopen.keys import FindKey

Fault = tuple[str, str]
"""The kind of a finding, and what to say behind the key."""
_TYPE = re.compile(f"(?:{'|'.join(TYPES)}){{1,3}}", re.ASCII)
_VECTORS = re.compile(r"c\d*\Z")
"""How the layouts of vectors end."""
_AXES = {2: sorted("NCHW"), 3: sorted("NCDHW")}
_LARGEST = (1 << 31) - 1
"""Of a size: MIOpen has it in a signed number of 32 bits."""
_NAMES = (
    *("spatial_dim", "in_channels", "in_h", "in_w", "in_d", "fil_h", "fil_w", "fil_d"),
    *("out_channels", "batchsize", "pad_h", "pad_w", "pad_d", "stride_h", "stride_w", "stride_d"),
    *("dilation_h", "dilation_w", "dilation_d", "bias", "group_count"),
)
_MAY_BE_0 = {"pad_h", "pad_w", "pad_d", "bias"}
_FLAT = {"stride_d", "dilation_d"}
"""Which are 0 where there are two axes."""
_GROUPS = _NAMES.index("group_count")
_AT_LEAST_1 = {
    spatial: itemgetter(*(at for at, name in enumerate(_NAMES) if name not in may_be_0))
    for spatial, may_be_0 in ((2, _MAY_BE_0 | _FLAT), (3, _MAY_BE_0))
}


def find_key_faults(key: FindKey) -> Iterator[Fault]:
    """What is wrong with a find key."""
    axes, groups = key.spatial, key.groups
    if set(map(len, key.layouts)) != {axes + 2}:
        yield "bad_layout", f": {'-'.join(key.layouts)} is no layout of {axes} spatial axes"
    sizes = (*key.first, *key.second, *key.filter, *key.stride, *key.dilation, key.n, groups)
    if min(sizes) < 1:
        yield "bad_sizes", " has a size of 0"
        return
    if key.first[0] % groups or key.second[0] % groups:
        yield "bad_sizes", f": {groups} groups do not divide the channels"
    excess = key.excess
    if abs(excess) > 1:
        by = f"{abs(excess)} {'more' if excess > 0 else 'less'}"
        yield "bad_sizes", f": the result is {by} than its other sizes give"


def perf_key_faults(fields: tuple[int | str, ...]) -> Iterator[Fault]:
    """What is wrong with a perf key, by its 21 numbers and three words."""
    numbers = cast("tuple[int, ...]", fields[:21])
    spatial = numbers[0]
    at_least_1 = _AT_LEAST_1[spatial](numbers)
    # Few files have such a size and many have a million of others.
    if min(at_least_1) < 1 or min(numbers) < 0 or max(numbers) > _LARGEST:
        yield "dead_key", f": {', '.join(_wrong_sizes(numbers))}: no problem is like that"
    groups = numbers[_GROUPS]
    if groups > 0 and (numbers[1] % groups or numbers[8] % groups):
        yield "bad_key", f": {groups} groups do not divide the channels"
    yield from _word_faults(spatial, str(fields[21]), str(fields[22]))


def _wrong_sizes(numbers: tuple[int, ...]) -> Iterator[str]:
    may_be_0 = _MAY_BE_0 | _FLAT if numbers[0] == 2 else _MAY_BE_0
    for name, size in zip(_NAMES, numbers, strict=True):
        if not (name not in may_be_0) <= size <= _LARGEST:
            yield f"{name} is {size}"


@lru_cache(maxsize=256)
def _word_faults(spatial: int, layout: str, kind: str) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    if not _TYPE.fullmatch(kind):
        faults.append(("bad_key", f": {kind} is no type"))
    if fault := _layout_fault(spatial, layout):
        faults.append((fault, f": {layout} is no layout of {spatial} spatial axes"))
    return tuple(faults)


def _layout_fault(spatial: int, layout: str) -> str | None:
    if sorted(_VECTORS.sub("", layout)) == _AXES[spatial]:
        return None
    # Old MIOpen wrote NCHW for all; it is what it looks for, so it is no error.
    return "old_layout" if (spatial, layout) == (3, "NCHW") else "bad_layout"
