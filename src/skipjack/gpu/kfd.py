"""AMD's GPUs as Linux lists them: which they are is read without any library.

HIP's record of a device has another layout in each major version; the kernel's list has not.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

NODES = Path("/sys/class/kfd/kfd/topology/nodes")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """A GPU of the list."""

    arch: str
    units: int
    shared_bytes: int
    l2_bytes: int
    bus: str
    """Where it is on the PCI bus, as ``0000:c1:00.0``."""
    render_node: str = ""
    """Its device file, as ``/dev/dri/renderD128``; empty if the list does not say it."""


def read_nodes(folder: Path = NODES) -> list[Node]:
    """All GPUs in the kernel's order; CPUs are in the same list and left out."""
    if not folder.is_dir():
        return []
    found = []
    for place in sorted(folder.iterdir(), key=lambda path: (len(path.name), path.name)):
        values = _values(place / "properties")
        if values.get("simd_count") and values.get("gfx_target_version"):
            found.append(_node(values, place))
    return found


def arch_of(version: int) -> str:
    """``90402`` as ``gfx942``; the last two places are hexadecimal digits in the name."""
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def _node(values: dict[str, int], place: Path) -> Node:
    location = values.get("location_id", 0)
    bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
    return Node(
        arch_of(values["gfx_target_version"]),
        values["simd_count"] // max(1, values.get("simd_per_cu", 4)),
        values.get("lds_size_in_kb", 64) << 10,
        _l2_bytes(place / "caches"),
        f"{values.get('domain', 0):04x}:{bus:02x}:{slot:02x}.{function}",
        f"/dev/dri/renderD{minor}" if (minor := values.get("drm_render_minor")) else "",
    )


def _l2_bytes(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    caches = [_values(place / "properties") for place in folder.iterdir()]
    sizes = [cache.get("size", 0) << 10 for cache in caches if cache.get("level") == 2]
    return max(sizes, default=0)


def _values(path: Path) -> dict[str, int]:
    """Lines of a name and a number; a file that cannot be read has none."""
    try:
        pairs = [line.split() for line in path.read_text().splitlines()]
    except OSError as error:
        log.debug("cannot read %s: %s", path, error)
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
