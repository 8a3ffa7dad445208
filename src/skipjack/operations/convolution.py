"""``conv2d:``, ``conv3d:`` and their transposed forms, in three directions and two layouts.

Shapes are in MIOpen's letters: ``n c h w`` of the image, ``k`` channels of the result, ``y x`` of
the filter, pads ``p q``, strides ``u v``, dilations ``l j``, groups ``g``. Three dimensions add a
depth to each: ``d``, filter ``z``, pad ``o``, stride ``t``, dilation ``i``. A transposed
convolution may have output pads ``a b`` (and ``e`` along the depth). Pads are 0 by default, the
other optional sizes 1.

============  ==============  =======================================
direction     given           computed
============  ==============  =======================================
``fwd``       ``x``, ``w``    the result
``bwd``       ``dy``, ``w``   the gradient of x (backward-data)
``wrw``       ``x``, ``dy``   the gradient of w (backward-weights)
============  ==============  =======================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from skipjack.core import (
    Array,
    Arrays,
    OperationClass,
    Problem,
    Sample,
    Tensor,
    Tolerance,
    parse_lettered_shape,
)
from skipjack.errors import ProblemError
from skipjack.operations.attributes import refuse_unknown
from skipjack.operations.conv_geometry import (
    OUT,
    Axis,
    Geometry,
    Role,
    convolve,
    result_size,
    transposed_size,
)
from skipjack.operations.error_bounds import product_factor

DIRECTIONS = ("fwd", "bwd", "wrw")
_FLAT, _DEEP = "hwyxpquvlj", "dhwzyxopqtuvilj"
_NEW = {2: "ab", 3: "eab"}
_PADS = "opqeab"
_PROJECTED_COLUMNS = 16
"""With fewer channels in a group, a projection is not cheaper."""
_SAMPLED_CHANNELS = 4
_WANTED: dict[bool, dict[str, Role]] = {
    False: {"fwd": "result", "bwd": "image", "wrw": "filter"},
    True: {"fwd": "image", "bwd": "result", "wrw": "filter"},
}


@dataclass(frozen=True)
class Convolution:
    """A convolution of two or three dimensions, plain or transposed."""

    spatial: int = 2
    transposed: bool = False

    operation_class: OperationClass = "cube"
    dtypes = ("f32", "f64", "f16", "bf16", "tf32")
    domain = (-1.0, 1.0)
    directions = DIRECTIONS
    in_numpy = False

    @property
    def name(self) -> str:
        return f"conv{'_transpose' if self.transposed else ''}{self.spatial}d"

    @property
    def example(self) -> str:
        depth, filters, pads = ("d8", "z3", "o1") if self.spatial == 3 else ("", "", "")
        return f"{self.name}:n1c64{depth}h56w56k64{filters}y3x3{pads}p1q1"

    @property
    def layouts(self) -> Sequence[str]:
        """Channels before or after the pixels."""
        return ("NCDHW", "NDHWC") if self.spatial == 3 else ("NCHW", "NHWC")

    @property
    def letters(self) -> str:
        """The letters of a shape, in the order of `Problem.shape`."""
        axes = _DEEP if self.spatial == 3 else _FLAT
        image, rest = axes[: self.spatial], axes[self.spatial :]
        return f"nc{image}k{rest}g{_NEW[self.spatial] if self.transposed else ''}"

    @property
    def defaults(self) -> dict[str, int]:
        """Optional letters with their defaults."""
        optional = [at for at in self.letters if at not in "ncdhwkzyx"]
        return {at: 0 if at in _PADS else 1 for at in optional}

    def parse_shape(self, text: str, where: str) -> tuple[tuple[int, ...], str]:
        """Sizes by letter; the canonical text omits defaults."""
        return parse_lettered_shape(
            text, self.letters, where, self.defaults, zeros=_PADS, brief=True
        )

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """There are no attributes; groups divide the channels, and the filter fits the image."""
        refuse_unknown(attributes, (), where)
        have = dict(zip(self.letters, shape, strict=True))
        for letter, what in (("c", "input"), ("k", "output")):
            if have[letter] % have["g"]:
                raise ProblemError(
                    f"problem {where!r}: {have['g']} groups do not divide "
                    f"{have[letter]} {what} channels; choose {letter} as a multiple of g"
                )
        for name, axis in zip(("depth", "height", "width"), self._axes(have), strict=True):
            self._check_axis(name, axis, where)
        for letter, stride, dilation in zip(
            _NEW[self.spatial], self._strides(), self._dilations(), strict=True
        ):
            if have.get(letter, 0) >= max(have[stride], have[dilation]):
                raise ProblemError(
                    f"problem {where!r}: the output pad {letter} is {have[letter]}; it must be "
                    f"smaller than the stride {stride} or the dilation {dilation}"
                )
        return ()

    def _check_axis(self, name: str, axis: Axis, where: str) -> None:
        if self.transposed and axis.image < 1:
            raise ProblemError(
                f"problem {where!r}: the pads leave an output without {name}; choose smaller pads"
            )
        if axis.result < 1:
            raise ProblemError(
                f"problem {where!r}: the filter covers {axis.reach} pixels of the {name}, but "
                f"the padded image has only {axis.image + 2 * axis.pad}; "
                "choose a smaller filter or more padding"
            )

    def _strides(self) -> str:
        return "tuv"[3 - self.spatial :]

    def _dilations(self) -> str:
        return "ilj"[3 - self.spatial :]

    def _axes(self, have: Mapping[str, int]) -> tuple[Axis, Axis, Axis]:
        """Depth, height and width; for a transposed convolution with exchanged roles."""
        axes = []
        for letters in ("dzotie", "hypula", "wxqvjb"):
            size, taps, pad, stride, dilation, more = letters
            if size not in have:
                axes.append(Axis(1))
                continue
            step = (have[taps], have[pad], have[stride], have[dilation])
            if self.transposed:
                image = transposed_size(have[size], *step, have[more])
                axes.append(Axis(image, step[0], have[size], *step[1:]))
            else:
                axes.append(Axis(have[size], step[0], result_size(have[size], *step), *step[1:]))
        depth, height, width = axes
        return depth, height, width

    def geometry(self, problem: Problem) -> Geometry:
        """The geometry, with the computed role and the names of the arrays."""
        have = dict(zip(self.letters, problem.shape, strict=True))
        direction = problem.direction or DIRECTIONS[0]
        given: Role = "result" if self.transposed else "image"
        gradient: Role = "image" if self.transposed else "result"
        names: dict[str, tuple[tuple[Role, str], ...]] = {
            "fwd": ((given, "x"), ("filter", "w"), (gradient, OUT)),
            "bwd": ((gradient, "dy"), ("filter", "w"), (given, OUT)),
            "wrw": ((given, "x"), (gradient, "dy"), ("filter", OUT)),
        }
        c, k = (have["k"], have["c"]) if self.transposed else (have["c"], have["k"])
        return Geometry(
            have["n"],
            c,
            k,
            have["g"],
            self._axes(have),
            self.spatial,
            problem.layout == self.layouts[1],
            _WANTED[self.transposed][direction],
            names[direction],
        )

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return self.geometry(problem).inputs

    def output(self, problem: Problem) -> Tensor:
        geometry = self.geometry(problem)
        return geometry.tensor(geometry.wanted)

    def flops(self, problem: Problem) -> int:
        """A multiplication and an addition for every tap at every pixel, including padding."""
        return 2 * self.geometry(problem).multiplications

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        return _computed(self.geometry(problem), arrays)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """The same convolution of the magnitudes."""
        return _computed(self.geometry(problem), _magnitudes(arrays))

    def tolerance(self, problem: Problem) -> Tolerance:
        """The bound of a sum of products, as in a matrix product."""
        geometry = self.geometry(problem)
        length = {
            "result": geometry.group_c * geometry.taps,
            "image": geometry.group_k * geometry.taps,
            "filter": geometry.n * geometry.result_pixels,
        }[geometry.wanted]
        return Tolerance(product_factor(problem.dtype, length))

    def check_elements(self, problem: Problem) -> int:
        """The padded image and the part of one tap, each for values and magnitudes."""
        geometry = self.geometry(problem)
        padded = prod(max(axis.padded, axis.pad + axis.image) for axis in geometry.axes)
        return 2 * geometry.n * geometry.c * padded

    # Checking large results

    def can_project(self, problem: Problem) -> bool:
        """Whether groups have many channels to project and a part can be computed alone."""
        geometry = self.geometry(problem)
        many = _columns(geometry) >= _PROJECTED_COLUMNS
        return many and (geometry.groups == 1 or geometry.n > 1 or geometry.wanted == "filter")

    def as_matrix(self, problem: Problem, result: Array) -> Array:
        """A matrix whose columns are the channels of a group."""
        geometry = self.geometry(problem)
        if geometry.wanted == "filter":
            grouped = result.reshape(geometry.groups, geometry.group_k, -1)
            return np.moveaxis(grouped, 1, -1).reshape(-1, geometry.group_k)
        last = result if geometry.channels_last else np.moveaxis(result, 1, -1)
        return last.reshape(-1, _columns(geometry))

    def project(
        self, problem: Problem, arrays: Arrays, vectors: Array
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """A convolution with as many channels in a group as there are vectors."""
        geometry = self.geometry(problem)
        exact = _projected(geometry, arrays, vectors)
        return exact, _projected(geometry, _magnitudes(arrays), np.abs(vectors))

    def sampled(
        self, problem: Problem, arrays: Arrays, rng: np.random.Generator
    ) -> Sequence[Sample]:
        """One image, if there are several, or else some channels."""
        geometry = self.geometry(problem)
        if geometry.n > 1 and geometry.wanted != "filter":
            place, part, some = _one_image(geometry, arrays, rng)
        else:
            place, part, some = _some_channels(geometry, arrays, rng)
        return [Sample(place, _computed(part, some), _computed(part, _magnitudes(some)))]


Part = tuple[tuple[Any, ...], Geometry, dict[str, Array]]
"""An index of the output, and the geometry and inputs that compute only this part."""


def _computed(geometry: Geometry, arrays: Arrays) -> Array:
    first, second = (arrays[tensor.name] for tensor in geometry.inputs)
    return convolve(geometry, first, second)


def _magnitudes(arrays: Arrays) -> dict[str, Array]:
    return {name: np.abs(array) for name, array in arrays.items() if name != OUT}


def _columns(geometry: Geometry) -> int:
    return geometry.group_c if geometry.wanted == "image" else geometry.group_k


def _channel_axis(geometry: Geometry) -> int:
    return -1 if geometry.channels_last else 1


def _projected(geometry: Geometry, arrays: Arrays, vectors: Array) -> Array:
    """Project the channels of one operand, then convolve with fewer channels."""
    count, groups = vectors.shape[1], geometry.groups
    role: Role = "result" if geometry.wanted == "filter" else "filter"
    array = arrays[geometry.name(role)]
    if geometry.wanted == "result":
        grouped = array.reshape(groups, geometry.group_k, -1)
        fewer = np.einsum("gkr,kv->gvr", grouped, vectors, optimize=True)
        fewer = fewer.reshape(groups * count, *array.shape[1:])
    else:
        axis = _channel_axis(geometry)
        last = np.moveaxis(array, axis, -1)
        apart = last.reshape(*last.shape[:-1], -1, len(vectors))
        fewer = (apart @ vectors).reshape(*last.shape[:-1], -1)
        fewer = np.ascontiguousarray(np.moveaxis(fewer, -1, axis))
    if geometry.wanted == "image":
        smaller = replace(geometry, c=groups * count)
    else:
        smaller = replace(geometry, k=groups * count)
    result = _computed(smaller, {**arrays, geometry.name(role): fewer})
    if geometry.wanted == "filter":
        return np.moveaxis(result.reshape(groups, count, -1), 1, -1).reshape(-1, count)
    last = np.moveaxis(result, _channel_axis(geometry), -1)
    return last.reshape(-1, count)


def _one_image(geometry: Geometry, arrays: Arrays, rng: np.random.Generator) -> Part:
    at = int(rng.integers(geometry.n))
    given: Role = "result" if geometry.wanted == "image" else "image"
    some = dict(arrays)
    some[geometry.name(given)] = arrays[geometry.name(given)][at : at + 1]
    return (slice(at, at + 1),), replace(geometry, n=1), some


def _some_channels(geometry: Geometry, arrays: Arrays, rng: np.random.Generator) -> Part:
    """Some channels of the output, all in one group."""
    group = int(rng.integers(geometry.groups))
    chosen = {
        "c": _chosen(geometry.group_c, rng, geometry.wanted in ("image", "filter")),
        "k": _chosen(geometry.group_k, rng, geometry.wanted in ("result", "filter")),
    }
    c, k = (group * geometry.group_c + chosen["c"], group * geometry.group_k + chosen["k"])
    axis = 1 + geometry.spatial if geometry.channels_last else 1
    # In the filter, channels of the image are numbered within their group.
    parts: dict[Role, list[tuple[int, Any]]] = {
        "image": [(axis, c)],
        "result": [(axis, k)],
        "filter": [(0, k), (axis, chosen["c"])],
    }

    def place(role: Role) -> tuple[Any, ...]:
        shape = geometry.shape(role)
        axes = [np.arange(size) for size in shape]
        for at, some in parts[role]:
            axes[at] = some
        return np.ix_(*axes)

    some = {
        name: arrays[name][place(role)] for role, name in geometry.names if role != geometry.wanted
    }
    part = replace(geometry, c=len(c), k=len(k), groups=1)
    return place(geometry.wanted), part, some


def _chosen(count: int, rng: np.random.Generator, sampled: bool) -> npt.NDArray[np.int64]:
    """The first, the last and some other channels; all if not `sampled`."""
    if not sampled:
        return np.arange(count)
    between = rng.integers(0, count, _SAMPLED_CHANNELS)
    return np.unique(np.r_[0, count - 1, between])


CONVOLUTIONS = tuple(
    Convolution(spatial, transposed) for transposed in (False, True) for spatial in (2, 3)
)
