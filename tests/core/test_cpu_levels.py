"""Levels of instruction sets: a CPU has one if it has all of it, whatever its name says."""

from __future__ import annotations

import pytest

from skipjack.core import X86_LEVELS, features_of, level_of, levels_up_to, vector_bytes
from skipjack.core.device import missing_features
from skipjack.errors import UsageError


@pytest.mark.parametrize("level", X86_LEVELS)
def test_a_cpu_with_all_of_a_level_has_it(level: str) -> None:
    assert level_of("znver4", features_of(level)) == level
    assert level_of("nehalem", [*features_of(level), "gfni", "vaes"]) == level


@pytest.mark.parametrize("level", X86_LEVELS[1:])
def test_a_cpu_with_a_part_of_a_level_has_the_one_below(level: str) -> None:
    below = levels_up_to(level)[1]
    for absent in set(features_of(level)) - set(features_of(below)):
        assert level_of("znver4", set(features_of(level)) - {absent}) == below


def test_a_hole_below_counts_too() -> None:
    assert level_of("znver4", set(features_of("x86-64-v4")) - {"fma"}) == "x86-64-v2"


@pytest.mark.parametrize(
    ("level", "width"),
    [("x86-64", 16), ("x86-64-v2", 16), ("x86-64-v3", 32), ("x86-64-v4", 64), ("aarch64", 16)],
)
def test_a_level_decides_the_width_of_vectors(level: str, width: int) -> None:
    assert vector_bytes(level) == width


def test_arm_has_one_level() -> None:
    assert level_of("neoverse-n1", ()) == level_of("unheard-of", ["neon"]) == "aarch64"
    assert levels_up_to("aarch64") == ("aarch64",)


def test_what_is_missing_is_named() -> None:
    assert missing_features("x86-64-v3", features_of("x86-64-v2"))[:3] == ("avx", "avx2", "bmi")
    assert missing_features("x86-64-v2", features_of("x86-64-v3")) == ()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(
        UsageError, match="'x86-64-v5' is not an instruction set level; choose from x86-64, "
    ):
        features_of("x86-64-v5")
