"""Convolutions of one to three dimensions, transposed convolutions, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from skipjack.core import Problem
from skipjack.integrations.torch.matching.calls import (
    DTYPES,
    CallMatch,
    CallMatches,
    KernelPart,
    StubStep,
    TensorFacts,
    TorchCall,
    contiguous,
    matches,
)
from skipjack.integrations.torch.stubs import (
    ARGUMENT,
    CHANNEL_DTYPES,
    OPTIONAL_ARGUMENT,
    RESULT,
    UNDEFINED,
    PlanOutput,
    PlanPlace,
)
from skipjack.operations import get, parse

_AXES = {2: ("hw", "yx", "pq", "uv", "lj", "ab"), 3: ("dhw", "zyx", "opq", "tuv", "ilj", "eab")}
_ALONE = 32768
"""The number of elements up to which a small kernel runs on one thread."""
_DX, _DW, _DB = range(3)
_STRIDES = "no kernel supports its strides, or its layouts differ"


@dataclass(frozen=True, slots=True)
class _Geometry:
    """The geometry of a convolution, for all directions."""

    x: TensorFacts
    w: TensorFacts
    lists: tuple[tuple[int, ...], ...]
    """Paddings, strides, dilations, output paddings."""
    transposed: bool
    groups: int
    threads: int

    @property
    def channels_last(self) -> bool:
        """Whether the result has channels last, as PyTorch decides."""
        return _suggests_channels_last(self.x) or _suggests_channels_last(self.w)

    @property
    def channels(self) -> int:
        """Channels of the result."""
        return self.w.sizes[1] * self.groups if self.transposed else self.w.sizes[0]

    def problem(self, direction: str) -> Problem:
        """The problem; one dimension becomes two, the first with one element."""
        spatial = max(len(self.x.sizes) - 2, 2)
        image, taps, pads, strides, dilations, more = _AXES[spatial]
        given: dict[str, int] = {"n": self.x.sizes[0], "c": self.x.sizes[1]}
        given |= zip(image, _filled(self.x.sizes[2:], spatial, 1), strict=True)
        given["k"] = self.channels
        given |= zip(taps, _filled(self.w.sizes[2:], spatial, 1), strict=True)
        axes = len(self.x.sizes) - 2
        lists = [one * axes if len(one) == 1 else one for one in self.lists]
        fills = (0, 1, 1, 0)
        wanted = (pads, strides, dilations, more)[: 4 if self.transposed else 3]
        for letters, values, fill in zip(wanted, lists, fills, strict=False):
            given |= zip(letters, _filled(values, spatial, fill), strict=True)
        given["g"] = self.groups
        name = f"conv{'_transpose' if self.transposed else ''}{spatial}d"
        shape = "".join(f"{letter}{value}" for letter, value in given.items())
        layouts = ("NCDHW", "NDHWC") if spatial == 3 else ("NCHW", "NHWC")
        layout = layouts[self.channels_last]
        return parse(f"{name}:{shape}:{DTYPES[self.x.dtype]}:{layout}:{direction}")

    @property
    def result_sizes(self) -> tuple[int, ...]:
        """PyTorch's sizes: channels second, whatever the layout."""
        problem = self.problem("fwd")
        stored = get(problem.operation).output(problem).shape
        pixels = stored[1:-1] if self.channels_last else stored[2:]
        return (self.x.sizes[0], self.channels, *pixels[2 - len(self.x.sizes) :])

    def lies_well(self, sizes: Sequence[int], strides: Sequence[int]) -> bool:
        """Whether an array has the layout that PyTorch gives the result."""
        return matches(sizes, strides, _strides(sizes, self.channels_last))

    @property
    def lays_out_weights(self) -> bool:
        """Whether the layout of their gradient in PyTorch is known.

        For weights that have both layouts, as those of 1x1, and images with channels last, it
        depends on the library that computes the gradient.
        """
        return not self.channels_last or self.w.strides == _strides(self.w.sizes, True)

    def made(self, result: int, sizes: tuple[int, ...]) -> PlanOutput:
        """An output for a result."""
        return PlanOutput(result, sizes, _strides(sizes, self.channels_last), self.x.dtype)

    def on_channels(self, verb: str, array: PlanPlace, vector: PlanPlace) -> StubStep:
        """A small kernel that adds a vector to the channels of an array, or sums them."""
        sizes = self.result_sizes
        outer, channels, inner = sizes[0], sizes[1], prod(sizes[2:])
        if self.channels_last:
            outer, inner = outer * inner, 1
        name = f"{verb}_{'columns' if inner == 1 else 'rows'}_{DTYPES[self.x.dtype]}"
        tasks = self.threads if prod(sizes) > _ALONE else 1
        return StubStep(name, (array, vector, outer, channels, inner, tasks))


def _filled(values: Sequence[int], spatial: int, fill: int) -> tuple[int, ...]:
    return (fill,) * (spatial - len(values)) + tuple(values)


def _strides(sizes: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    if not channels_last:
        return contiguous(sizes)
    first, *pixels, channels = contiguous((sizes[0], *sizes[2:], sizes[1]))
    return (first, channels, *pixels)


def _suggests_channels_last(facts: TensorFacts) -> bool:
    """Like PyTorch's ``suggest_memory_format``: arrays with both layouts have channels second."""
    if len(facts.sizes) not in (4, 5):
        return False
    least = 0
    for axis in (1, *range(len(facts.sizes) - 1, 1, -1), 0):
        stride, size = facts.strides[axis], facts.sizes[axis]
        if stride < least or (axis == 0 and least == facts.strides[1]):
            return False
        least = stride * max(size, 1)
    return True


def match_convolution(call: TorchCall) -> CallMatches:
    """A kernel, and a small one for the bias."""
    x, w, bias, stride, padding, dilation, transposed, more, groups = call.arguments
    assert isinstance(x, TensorFacts) and isinstance(w, TensorFacts) and isinstance(groups, int)
    lists = _lists(padding, stride, dilation, more)
    geometry = _Geometry(x, w, lists, bool(transposed), groups, call.threads)
    if reason := _why_not(geometry, bias is not None):
        return CallMatches(reason=reason)
    result = PlanPlace(RESULT)
    arrays = {"x": PlanPlace(ARGUMENT, 0), "w": PlanPlace(ARGUMENT, 1), "out": result}
    part, after = KernelPart(geometry.problem("fwd"), arrays), list[StubStep]()
    if isinstance(bias, TensorFacts):
        if not bias.is_contiguous:
            return CallMatches(reason="its bias is not contiguous")
        after.append(geometry.on_channels("add", result, PlanPlace(OPTIONAL_ARGUMENT, 2)))
    made = geometry.made(0, geometry.result_sizes)
    return CallMatches((CallMatch((part,), (made,), after=tuple(after)),))


def match_convolution_backward(call: TorchCall) -> CallMatches:
    """Both gradients, or one of them; the bias's is computed with the weights'."""
    dy, x, w, _, stride, padding, dilation, transposed, more, groups, mask = call.arguments
    assert isinstance(x, TensorFacts) and isinstance(w, TensorFacts) and isinstance(groups, int)
    assert isinstance(dy, TensorFacts) and isinstance(mask, tuple)
    lists = _lists(padding, stride, dilation, more)
    geometry = _Geometry(x, w, lists, bool(transposed), groups, call.threads)
    if reason := _why_not(geometry, bool(mask[_DB])):
        return CallMatches(reason=reason)
    if dy.sizes != geometry.result_sizes or not geometry.lies_well(dy.sizes, dy.strides):
        return CallMatches(reason=_STRIDES)
    wanted = tuple(place for place, asked in enumerate(mask) if asked)
    subsets = [wanted, tuple({_DX} & set(wanted)), tuple(sorted({_DW, _DB} & set(wanted)))]
    ways = [
        _gradients(geometry, ours, wanted)
        for ours in dict.fromkeys(subsets)
        if (_DX in ours or _DW in ours) and (_DW not in ours or geometry.lays_out_weights)
    ]
    return CallMatches(tuple(ways), "" if ways else "no kernel computes the requested gradients")


def _lists(*given: object) -> tuple[tuple[int, ...], ...]:
    return tuple(one for one in given if isinstance(one, tuple))


def _why_not(geometry: _Geometry, biased: bool) -> str:
    """Why our kernels cannot compute a call; empty if they can."""
    x, w = geometry.x, geometry.w
    if len(x.sizes) not in (3, 4, 5) or len(w.sizes) != len(x.sizes):
        return "it does not have one to three dimensions"
    if not geometry.lies_well(x.sizes, x.strides) or not geometry.lies_well(w.sizes, w.strides):
        return _STRIDES
    if biased and DTYPES[x.dtype] not in CHANNEL_DTYPES:
        return f"no kernel adds a bias of {DTYPES[x.dtype]}"
    return ""


def _gradients(geometry: _Geometry, ours: Sequence[int], wanted: Sequence[int]) -> CallMatch:
    dy, x, w = (PlanPlace(ARGUMENT, place) for place in range(3))
    parts, after = list[KernelPart](), list[StubStep]()
    outputs = [PlanOutput(one, (), (), UNDEFINED) for one in range(3) if one not in wanted]
    if _DX in ours:
        arrays = {"dy": dy, "w": w, "out": PlanPlace(RESULT, _DX)}
        parts.append(KernelPart(geometry.problem("bwd"), arrays))
        outputs.append(geometry.made(_DX, geometry.x.sizes))
    if _DW in ours:
        arrays = {"x": x, "dy": dy, "out": PlanPlace(RESULT, _DW)}
        parts.append(KernelPart(geometry.problem("wrw"), arrays))
        outputs.append(geometry.made(_DW, geometry.w.sizes))
    if _DB in ours:
        after.append(geometry.on_channels("sum", dy, PlanPlace(RESULT, _DB)))
        outputs.append(PlanOutput(_DB, (geometry.channels,), (1,), geometry.x.dtype))
    left = sum(1 << one for one in wanted if one not in ours)
    return CallMatch(tuple(parts), tuple(outputs), left, tuple(after))
