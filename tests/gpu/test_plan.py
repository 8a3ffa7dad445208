"""Launch plans travel as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import SkipjackError
from skipjack.gpu import (
    Descriptor,
    Fill,
    Launch,
    Number,
    Pointer,
    Scratch,
    blocks,
    from_slots,
    launch,
    scratch_sizes,
    to_slots,
)

names = st.text("abcdefgh_", min_size=1, max_size=8)
sizes = st.integers(1, 2**40)
pointers = st.builds(Pointer, names, st.integers(0, 2**40))
scratches = st.builds(Scratch, names, sizes)
places = pointers | scratches
numbers = st.builds(Number, st.sampled_from(["i32", "i64"]), st.integers(-(2**31), 2**31 - 1))
fractions = st.builds(Number, st.sampled_from(["f32", "f64"]), st.floats(allow_nan=False, width=32))
extents = st.lists(sizes, min_size=1, max_size=3).map(tuple)
descriptors = st.builds(Descriptor, places, extents, extents)
launches = st.builds(
    Launch,
    names,
    st.tuples(*[st.integers(1, 65535)] * 3),
    st.lists(places | numbers | fractions | descriptors, max_size=5).map(tuple),
)
fills = st.builds(Fill, places, sizes, st.integers(0, 255))


@given(st.lists(launches | fills, max_size=4))
def test_a_plan_comes_back_as_it_was(steps: list[Launch | Fill]) -> None:
    slots = to_slots(steps)
    assert from_slots(slots) == steps
    assert to_slots(from_slots(slots)) == slots


@given(st.lists(launches | fills, max_size=4))
def test_scratch_is_as_large_as_its_largest_use(steps: list[Launch | Fill]) -> None:
    sizes_ = scratch_sizes(steps)
    for step in steps:
        used = step.values if isinstance(step, Launch) else (step.where,)
        for one in used:
            place = one.of if isinstance(one, Descriptor) else one
            if isinstance(place, Scratch):
                assert sizes_[place.name] >= place.size


def test_plain_values_are_tensors_and_numbers() -> None:
    made = launch("main", (4, 2), ["x", 7, 2**33, 0.5])
    assert made.values == (Pointer("x"), Number("i32", 7), Number("i64", 2**33), Number("f32", 0.5))
    assert (made.grid, blocks(made)) == ((4, 2, 1), 8)


@pytest.mark.parametrize("grid", [(0,), (1, 70000), (2**31,)])
def test_a_grid_that_no_gpu_takes_is_refused(grid: tuple[int, ...]) -> None:
    with pytest.raises(SkipjackError, match="cannot be launched on a grid"):
        launch("main", grid, [])


@pytest.mark.parametrize("slot", ["", "{}", "3", '{"launch":"m","grid":[1],"values":[]}'])
def test_other_slots_are_no_plan(slot: str) -> None:
    with pytest.raises(SkipjackError, match="the launch plan cannot be read"):
        from_slots([slot])
