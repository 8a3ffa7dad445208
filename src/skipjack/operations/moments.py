"""Mean and variance of a group, and normalisation by them, as parts of row programs."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core import Accumulator, Call, Constant, Scalar, Statistic


@dataclass(frozen=True, slots=True)
class Moments:
    """Expressions for a mean, a variance and a scale, ``1 / sqrt(variance + eps)``."""

    mean: Scalar
    variance: Scalar
    eps: float
    statistics: tuple[Statistic, ...] = ()

    @property
    def scale(self) -> Scalar:
        """The inverse standard deviation."""
        return Call("rsqrt", (Call("add", (self.variance, Constant(self.eps))),))


def two_pass(x: Scalar, count: int, eps: float) -> Moments:
    """The mean, then the variance from the differences to it."""
    mean = Accumulator("mean")
    squares = Call("square", (Call("sub", (x, mean)),))
    statistics = mean_of("mean", x, count), mean_of("variance", squares, count)
    return Moments(mean, Accumulator("variance"), eps, statistics)


def one_pass(x: Scalar, some: tuple[Scalar, Scalar, Scalar], count: int, eps: float) -> Moments:
    """Both from differences to the median of three elements of the group, in one pass.

    If that element is k standard deviations from the mean, the rounding error is ``1 + k**2`` times
    that of two passes. Usually k is about 1; two of three elements are rarely far from the mean.
    """
    middle = _middle(*some)
    away = Call("sub", (x, middle))
    shift = Accumulator("shift")
    variance = Call("sub", (mean_of_sum(Accumulator(), count), Call("square", (shift,))))
    positive = Call("max", (variance, Constant(0.0)))
    statistics = (
        mean_of("shift", away, count),
        Statistic("variance", "sum", Call("square", (away,)), positive),
    )
    return Moments(Call("add", (middle, shift)), Accumulator("variance"), eps, statistics)


def _middle(one: Scalar, two: Scalar, three: Scalar) -> Scalar:
    low, high = Call("min", (one, two)), Call("max", (one, two))
    return Call("max", (low, Call("min", (high, three))))


def mean_of(name: str, body: Scalar, count: int) -> Statistic:
    """The mean of a body over a group of `count` elements."""
    return Statistic(name, "sum", body, mean_of_sum(Accumulator(), count))


def normalized_value(x: Scalar, moments: Moments, gamma: Scalar, beta: Scalar) -> Scalar:
    """``(x - mean) * (gamma * scale) + beta``."""
    factor = Call("mul", (gamma, moments.scale))
    return Call("add", (Call("mul", (Call("sub", (x, moments.mean)), factor)), beta))


def mean_of_sum(total: Scalar, count: int) -> Scalar:
    """The mean of `count` values from their sum."""
    return Call("mul", (total, Constant(1.0 / count)))
