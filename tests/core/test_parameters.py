"""Parameter spaces: exact counts, uniform samples, legal moves."""

from collections import Counter
from collections.abc import Callable
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import (
    Config,
    ConstraintLike,
    Countable,
    Parameter,
    ParameterSpace,
    Promising,
    Recombining,
    Staged,
    Value,
)
from skipjack.core.constraints import read_constraint
from skipjack.errors import SpaceError
from skipjack.testing.spaces import tiled_space, tiny_space, vast_space


def _sum_is_odd(a: int, d: int) -> bool:
    return (a + d) % 2 == 1


_CONSTRAINTS: list[ConstraintLike] = [
    "a * b * c <= 8",
    "a % b == 0",
    "c + d < 5",
    "a * b * c * d > 3",
    "flag or a <= d",
    "kind == 'x' or (b if flag else c) > 1",
    "kind in ('x', 'z') and min(a, d) < 3",
    "a / (b - 1) < 3",
    "gcd(a, b) == 1 and c != d",
    _sum_is_odd,
]


@st.composite
def _spaces(draw: st.DrawFn) -> ParameterSpace:
    def values(name: str) -> Parameter:
        return Parameter(
            name, tuple(draw(st.permutations([1, 2, 3, 4]))[: draw(st.integers(1, 4))])
        )

    parameters = [values(name) for name in "abcd"]
    parameters.append(Parameter("flag", (True, False)))
    parameters.append(Parameter("kind", ("x", "y", "z"), stage="run"))
    chosen = draw(st.lists(st.sampled_from(_CONSTRAINTS), max_size=5, unique=True))
    return ParameterSpace(parameters, chosen)


def _by_brute_force(space: ParameterSpace) -> set[Config]:
    names = [parameter.name for parameter in space.parameters]
    points = product(*(parameter.values for parameter in space.parameters))
    configs = (Config(dict(zip(names, point, strict=True))) for point in points)
    return {config for config in configs if all(c.holds(config) for c in space.constraints)}


@settings(max_examples=60, deadline=None)
@given(_spaces(), st.integers(0, 2**32))
def test_counting_listing_and_moving_agree_with_brute_force(
    space: ParameterSpace, seed: int
) -> None:
    legal = _by_brute_force(space)
    if not legal:
        with pytest.raises(SpaceError, match="no legal config"):
            space.count()
        return
    rng = np.random.default_rng(seed)
    listed = list(space.enumerate())
    assert space.count() == len(legal) == len(listed)
    assert set(listed) == legal
    first, second = space.sample(rng), space.sample(rng)
    assert {space.default(), first, second} <= legal
    child = space.recombine(first, second, rng)
    assert child in legal
    assert all(child[name] in (first[name], second[name]) for name in child)
    mutant = space.mutate(first, rng)
    assert mutant in legal
    assert (mutant == first) == (len(legal) == 1)
    near = space.neighbours(first)
    assert set(near) <= legal - {first}
    assert len(set(near)) == len(near)


@pytest.mark.parametrize("small_grid", [0, 3])
@settings(max_examples=30, deadline=None)
@given(space=_spaces())
def test_splitting_expressions_into_parts_changes_no_count(
    space: ParameterSpace, small_grid: int
) -> None:
    from skipjack.core import tabulation
    from skipjack.core.counting import Counting

    domains = {parameter.name: parameter.values for parameter in space.parameters}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabulation, "SMALL_GRID", small_grid)
        patch.setattr(tabulation, "TINY_GRID", 0)
        assert Counting(domains, space.constraints).total == len(_by_brute_force(space))


def test_a_space_of_a_billion_points_is_counted_and_sampled() -> None:
    space = vast_space()
    assert prod(len(parameter.values) for parameter in space.parameters) > 10**9
    # Independent count: constraints over disjoint parts multiply once the shared ones are fixed.
    assert space.count() == _count_vast(space)
    rng = np.random.default_rng(0)
    samples = [space.sample(rng) for _ in range(200)]
    assert all(space.contains(config) for config in samples)
    assert len(set(samples)) == 200


def _count_vast(space: ParameterSpace) -> int:
    domains = [np.array(parameter.values) for parameter in space.parameters]
    tile_m, tile_n, tile_k, split_m, split_n, split_k, stages, warps = domains
    total = 0
    for m in tile_m:
        for k in tile_k:
            n_choices = int((m * tile_n * k <= 65536).sum())
            legal_splits = split_m[m % split_m == 0]
            legal_stages = stages[k + stages < 128]
            products = np.multiply.outer(split_n, split_k).reshape(-1)
            for w in warps:
                stage_choices = int((legal_stages * w <= 48).sum())
                splits = int((np.multiply.outer(legal_splits * w, products) <= 1000).sum())
                total += n_choices * stage_choices * splits
    return total


def test_counts_beyond_64_bits_are_exact() -> None:
    values = tuple(range(1, 101))
    parameters = [Parameter(f"p{at}", values) for at in range(12)]
    space = ParameterSpace(parameters, [f"p{at} <= p{at + 1}" for at in range(0, 12, 2)])
    assert space.count() == 5050**6 > 2**63
    rng = np.random.default_rng(1)
    assert all(space.contains(space.sample(rng)) for _ in range(20))


def test_samples_are_uniform() -> None:
    space = ParameterSpace(
        [Parameter(name, (1, 2, 3, 4, 5, 6)) for name in "abc"], ["a * b <= 6", "b + c > 7"]
    )
    rng = np.random.default_rng(0)
    count, draws = space.count(), 4000
    seen = Counter(space.sample(rng) for _ in range(draws))
    expected = draws / count
    chi_square = sum((seen[config] - expected) ** 2 / expected for config in space.enumerate())
    # Mean count - 1, standard deviation sqrt(2 (count - 1)): four of them are hardly ever exceeded.
    assert count > 10
    assert chi_square < count - 1 + 4 * (2 * (count - 1)) ** 0.5


def test_an_empty_space_names_the_constraints_that_exclude_each_other() -> None:
    space = ParameterSpace(
        [Parameter("tile_m", (16, 1024)), Parameter("tile_n", (1, 2, 4))],
        ["tile_n < 4", "tile_m * tile_n <= 512", "tile_n > 0", "tile_m >= 1024"],
    )
    with pytest.raises(SpaceError) as error:
        space.default()
    assert str(error.value) == (
        "no legal config: `tile_m * tile_n <= 512` and `tile_m >= 1024` exclude each other"
    )


def test_a_single_impossible_constraint_is_named_alone() -> None:
    space = ParameterSpace([Parameter("a", (1, 2))], ["a < 2", "a > 5"])
    with pytest.raises(SpaceError, match="`a > 5` holds for no combination"):
        space.count()


def test_constraints_that_tie_everything_together_are_refused() -> None:
    values = tuple(float(v) ** 0.5 for v in range(2, 402))
    parameters = [Parameter(name, values) for name in "abcd"]
    space = ParameterSpace(parameters, ["a * b + c * d < 3"])
    with pytest.raises(SpaceError, match="tie"):
        space.count()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((), "no values"),
        ((1, 2.0), "type float, int"),
        ((1, True), "type bool, int"),
        ((1, 2, 1), "twice"),
        ((None,), "NoneType"),
        ((float("nan"),), "not finite"),
    ],
)
def test_values_are_of_one_kind_and_distinct(values: tuple[Value, ...], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Parameter("a", values)


def test_mistakes_in_a_space_are_named() -> None:
    a = Parameter("a", (1, 2))
    with pytest.raises(SpaceError, match="a is defined twice"):
        ParameterSpace([a, a])
    with pytest.raises(SpaceError, match=r"`a < z` reads z, which is not a parameter"):
        ParameterSpace([a], ["a < z"])
    with pytest.raises(SpaceError, match="must name every parameter"):
        ParameterSpace([a], [lambda **everything: True])
    with pytest.raises(SpaceError, match="fails for a=1: ZeroDivisionError"):
        ParameterSpace([a], [lambda a: 1 / (a - 1)]).count()
    with pytest.raises(SpaceError, match="default 3"):
        Parameter("a", (1, 2), default=3)
    with pytest.raises(SpaceError, match="expression"):
        Parameter("a-b", (1, 2))


def test_a_config_must_have_the_right_kind_of_value() -> None:
    space = ParameterSpace([Parameter("a", (1, 2)), Parameter("b", (True, False))])
    assert space.contains(Config(a=1, b=True))
    assert not space.contains(Config(a=True, b=True))
    assert not space.contains(Config(a=1.0, b=True))
    assert not space.contains(Config(a=1))
    assert not space.contains(Config(a=1, b=True, c=3))


def test_the_default_is_the_nearest_legal_config() -> None:
    parameters = [Parameter("a", (1, 2, 4, 8), default=8), Parameter("b", (1, 2, 4, 8), default=8)]
    assert ParameterSpace(parameters).default() == Config(a=8, b=8)
    assert ParameterSpace(parameters, ["a * b <= 32"]).default() == Config(a=4, b=8)
    both = ParameterSpace(parameters, ["a < 8", "b < 8"])
    assert both.default() == Config(a=4, b=4)
    three = [*parameters, Parameter("c", (1, 2, 4, 8), default=8)]
    all_changed = ParameterSpace(three, ["a < 8", "b < 8", "c < 8", "a + b + c <= 10"])
    assert all_changed.default() == Config(a=4, b=4, c=2)


def test_neighbours_list_adjacent_values_first() -> None:
    space = ParameterSpace([Parameter("a", (8, 1, 4, 2)), Parameter("b", (1, 2, 3))], ["b != 3"])
    near = space.neighbours(Config(a=4, b=1))
    assert set(near[:3]) == {Config(a=2, b=1), Config(a=8, b=1), Config(a=4, b=2)}
    assert near[3:] == [Config(a=1, b=1)]


def test_neighbours_change_pairs_where_single_changes_are_illegal() -> None:
    space = ParameterSpace([Parameter("a", (1, 2, 3)), Parameter("b", (1, 2, 3))], ["a == b"])
    assert space.neighbours(Config(a=1, b=1)) == [Config(a=2, b=2), Config(a=3, b=3)]


def test_small_spaces_are_listed_in_the_order_of_their_values() -> None:
    listed = [tuple(config.values()) for config in tiny_space().enumerate()]
    assert listed == [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (4, 1)]


def test_vast_spaces_are_listed_lazily() -> None:
    space = vast_space()
    listing = space.enumerate()
    configs = [next(listing) for _ in range(50)]
    assert len(set(configs)) == 50
    assert all(space.contains(config) for config in configs)


def test_the_build_part_leaves_run_time_settings_out() -> None:
    space = tiled_space()
    assert set(space.build_part(space.default())) == {"tile_m", "tile_n", "tile_k"}


def test_features_are_logarithms_of_sizes_and_places_of_text() -> None:
    space = ParameterSpace(
        [Parameter("a", (1, 8)), Parameter("b", (0, 3)), Parameter("c", ("x", "y"))]
    )
    assert space.features(Config(a=8, b=3, c="y")) == (3.0, 3.0, 1.0)


def test_promising_configs_come_in_the_order_given() -> None:
    parameters = [Parameter("a", (1, 2, 4)), Parameter("b", (1, 2, 4))]
    space = ParameterSpace(parameters, ["a != b"], order=lambda c: -float(c["a"]) + float(c["b"]))
    assert space.promising(2) == [Config(a=4, b=1), Config(a=4, b=2)]
    assert ParameterSpace(parameters).promising(2) == ()


def test_the_space_has_all_capabilities() -> None:
    space = tiny_space()
    for capability in (Countable, Recombining, Staged, Promising):
        assert isinstance(space, capability)


def test_the_digest_tells_spaces_apart() -> None:
    def space(values: tuple[int, ...], *constraints: object) -> str:
        return ParameterSpace([Parameter("a", values)], constraints).digest  # type: ignore[arg-type]

    assert space((1, 2)) == space((1, 2))
    assert space((1, 2)) != space((1, 3))
    assert space((1, 2)) != space((1, 2), "a < 3")
    assert space((1, 2), lambda a: a < 3) != space((1, 2), lambda a: a < 4)
    limits = [3, 4]
    bounded = [lambda a, limit=limit: a < limit for limit in limits]
    assert space((1, 2), bounded[0]) != space((1, 2), bounded[1])


def test_a_space_without_parameters_has_one_config() -> None:
    space = ParameterSpace([])
    assert space.count() == 1
    assert space.sample(np.random.default_rng(0)) == Config() == space.default()


def _fits(a: int) -> bool:
    return a < 4  # a comment


def test_a_constraint_is_known_by_what_it_says_and_not_by_its_byte_code() -> None:
    def identity(function: Callable[..., object]) -> str:
        return read_constraint(function, frozenset({"a"})).identity

    assert identity(_fits) == "test_parameters._fits:def_fits(a:int)->bool:returna<4:"
    one, other = (lambda a: a < 4), (lambda a: a < 5)
    assert identity(one) != identity(other)
