"""Levels of CPU instruction sets: what machine code is built for and needs to run.

The levels of x86-64 are those of its psABI, which LLVM, GCC and glibc know by the same names. A CPU
has a level if it has all of it. 64-bit ARM has one level: NEON, which every such CPU has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from skipjack.errors import UsageError

AARCH64 = "aarch64"
"""Any 64-bit ARM with NEON."""
_ADDED = {
    "x86-64": ("cmov", "cx8", "fxsr", "mmx", "sse", "sse2"),
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v4": ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"),
}
"""What each level of x86-64 adds to the one before, by LLVM's names."""
X86_LEVELS = tuple(_ADDED)
"""Lowest first."""
_VECTOR_BYTES = {"x86-64-v3": 32, "x86-64-v4": 64}
# How LLVM's names of 64-bit ARM processors begin.
_ARM = ("a64fx", AARCH64, "ampere", "apple", "carmel", "cortex-", "neoverse", "oryon", "thunderx")


def is_arm(arch: str, features: Collection[str]) -> bool:
    """By the features; where they were left empty, by the name."""
    return "neon" in features or arch.startswith(_ARM)


def level_of(arch: str, features: Collection[str]) -> str:
    """The highest level of which a CPU has every feature. What its name implies does not count."""
    if is_arm(arch, features):
        return AARCH64
    found = X86_LEVELS[0]
    for level in X86_LEVELS[1:]:
        if not set(_ADDED[level]) <= set(features):
            break
        found = level
    return found


def features_of(level: str) -> tuple[str, ...]:
    """All features of a level, sorted; `UsageError` if there is no such level."""
    if level == AARCH64:
        return ("fp-armv8", "neon")
    if level not in X86_LEVELS:
        raise UsageError(
            f"{level!r} is not a level; choose from {', '.join((*X86_LEVELS, AARCH64))}"
        )
    below = X86_LEVELS[: X86_LEVELS.index(level) + 1]
    return tuple(sorted(feature for each in below for feature in _ADDED[each]))


def used_features(arch: str, features: Collection[str]) -> tuple[str, ...]:
    """What code for a CPU may use: all of its level, and what no level has, as ``avxvnni``.

    A CPU may have a part of the next level; code never uses a part.
    """
    graded = {feature for added in _ADDED.values() for feature in added}
    level = features_of(level_of(arch, features))
    return tuple(sorted({*level, *(set(features) - graded)}))


def levels_up_to(level: str) -> tuple[str, ...]:
    """The levels whose code a CPU of this level runs, its own first."""
    if level not in X86_LEVELS:
        return (level,)
    return X86_LEVELS[X86_LEVELS.index(level) :: -1]


def vector_bytes(level: str) -> int:
    """The widest vectors that kernels use; scalable ones (SVE) are used as NEON."""
    return _VECTOR_BYTES.get(level, 16)


def lanes_for(size: int, lanes: int) -> int:
    """Lanes of a vector, up to so many: a range that half of it covers gets a half, not a mask."""
    return min(lanes, 1 << (size - 1).bit_length())


def missing(needed: str, features: Iterable[str]) -> tuple[str, ...]:
    """Features of a level that are not among these."""
    return tuple(sorted(set(features_of(needed)) - set(features)))
