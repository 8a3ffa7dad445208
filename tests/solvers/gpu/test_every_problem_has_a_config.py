"""What a solver for GPUs does not refuse it can do: there is a config, with a plan to launch."""

from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack import operations
from skipjack.core import Device, Problem
from skipjack.devices import describe
from skipjack.gpu import from_slots
from skipjack.solvers import building_solvers

GPUS = [describe(name) for name in ("sm_75/40", "sm_90/132", "gfx942/304", "gfx1100/96")]
DTYPES = st.sampled_from(("f16", "tf32", "f32"))
CHANNELS = st.sampled_from((1, 3, 5, 8, 16, 32, 64))
SIDES = st.integers(1, 18)
DIRECTIONS = st.sampled_from(("fwd", "bwd", "wrw"))


@st.composite
def convolutions(draw: st.DrawFn) -> Problem:
    """Small ones, of which many have fewer results than a GPU has threads in a block."""
    groups = draw(st.sampled_from((1, 1, 2)))
    c, k = (groups * draw(CHANNELS) for _ in range(2))
    taps, stride, pad = draw(st.sampled_from((1, 3, 5))), draw(st.integers(1, 2)), draw(SIDES) % 3
    h, w = (max(draw(SIDES), taps) for _ in range(2))
    filter_ = f"y{taps}x{taps}p{pad}q{pad}u{stride}v{stride}g{groups}"
    layout, direction = draw(st.sampled_from(("NHWC", "NCHW"))), draw(DIRECTIONS)
    image = f"n{draw(st.sampled_from((1, 2, 8)))}c{c}h{h}w{w}k{k}"
    return operations.parse(f"conv2d:{image}{filter_}:{layout}:{direction}:{draw(DTYPES)}")


@st.composite
def batches(draw: st.DrawFn) -> Problem:
    """Up to more matrices than two of a grid's axes have places for."""
    sizes = [draw(st.sampled_from((1, 3, 16, 100, 300))) for _ in range(3)]
    count = draw(st.sampled_from((1, 2, 65535, 65536, 1_000_000)))
    ta, tb = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    shape = "x".join(map(str, (count, *sizes)))
    return operations.parse(f"bmm:{shape}/ta={ta}/tb={tb}:{draw(DTYPES)}")


def check(problem: Problem, device: Device) -> None:
    solvers = building_solvers(problem, device)
    assert solvers, problem.key
    for solver in solvers:
        space = solver.space(problem, device)
        config = space.default()
        assert space.contains(config)
        assert from_slots(solver.slots(problem, device, config))


@settings(max_examples=120, deadline=None)
@given(convolutions(), st.sampled_from(GPUS))
def test_small_convolutions(problem: Problem, device: Device) -> None:
    check(problem, device)


@settings(max_examples=60, deadline=None)
@given(batches(), st.sampled_from(GPUS))
def test_products_in_batches_of_any_length(problem: Problem, device: Device) -> None:
    check(problem, device)
