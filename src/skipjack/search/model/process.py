"""A Gaussian process: what is known of some configs predicts the others, with its uncertainty.

Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), chapters 2 and 5. With few
trials it predicts better than trees do. A trial more costs one product of a matrix and a vector.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.search.model.encoding import Groups, Rows
from skipjack.search.model.settings import ModelSettings

Doubles = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
"""Of single or double precision."""

_SHORTEST, _LONGEST = math.log(0.05), math.log(20.0)
_LEAST_NOISE, _MOST_NOISE = math.log(1e-5), math.log(0.5)
_JITTER = 1e-6
_NOISE_SPREAD = 2.0
_PRIOR_TRIALS = 2.0
"""The variance of the values counts as much as so many trials."""
_RATE, _KEPT, _KEPT_SQUARES = 0.25, 0.7, 0.9


def kernel(squares: Floats) -> Floats:
    """Matérn's kernel of smoothness 5/2, of squared distances."""
    far = np.sqrt(5.0 * squares)
    found = far / 3.0
    found += 1.0
    found *= far
    found += 1.0
    np.negative(far, out=far)
    found *= np.exp(far, out=far)
    return np.asarray(found)


def _slope(squares: Doubles) -> Doubles:
    """The derivative of the kernel by the squared distance."""
    far = np.sqrt(5.0 * squares)
    return np.asarray(-(5.0 / 6.0) * (1.0 + far) * np.exp(-far))


class GaussianProcess:
    """Predicts the rows of a pool.

    Lengths are fitted to the likelihood of the values, given what lengths are usual. `condition`
    computes what depends on rows, `append` adds a row, and `predict` takes their values, which may
    change between calls.

    Args:
        groups: the columns that share a length; -1 for columns that a value depends on linearly.
        settings: what is expected of lengths and noise, and how many steps a fit has.
    """

    def __init__(self, groups: Groups, settings: ModelSettings) -> None:
        self.settings = settings
        self._near, self._linear = groups >= 0, groups < 0
        self.groups = groups[self._near]
        size = int(self.groups.max()) + 1
        self._usual = np.array([math.log(settings.length)] * size + [math.log(settings.noise)])
        self._spread = np.array([settings.length_spread] * size + [_NOISE_SPREAD])
        self._theta = self._usual.copy()
        """Logarithms of the lengths and of the noise."""
        self._fitted = False
        self.size = 0
        """The number of rows it is conditioned on."""

    # The lengths

    @property
    def lengths(self) -> Doubles:
        """The distance at which values differ in each group; a group that hardly matters: long."""
        return np.asarray(np.exp(self._theta[:-1]))

    def fit(self, rows: Rows, values: Doubles) -> None:
        """Fit lengths and noise, starting from those of the last fit."""
        steps = self.settings.steps if self._fitted else self.settings.first_steps
        self._fitted = True
        distances = self._distances(rows[:, self._near])
        trend = rows[:, self._linear] @ rows[:, self._linear].T
        centered = values - values.mean()
        theta = self._theta.copy()
        slow, squares = np.zeros_like(theta), np.zeros_like(theta)
        best, least = theta, math.inf
        for step in range(1, steps + 2):
            loss, gradient = self._loss(theta, distances, trend, centered)
            if loss < least:
                best, least = theta, loss
            # Adam: Kingma and Ba, A Method for Stochastic Optimization (2015).
            slow = _KEPT * slow + (1 - _KEPT) * gradient
            squares = _KEPT_SQUARES * squares + (1 - _KEPT_SQUARES) * gradient**2
            move = slow / (1 - _KEPT**step)
            move /= np.sqrt(squares / (1 - _KEPT_SQUARES**step)) + 1e-8
            theta = theta - _RATE * move
            theta[:-1] = np.clip(theta[:-1], _SHORTEST, _LONGEST)
            theta[-1] = np.clip(theta[-1], _LEAST_NOISE, _MOST_NOISE)
        self._theta = best

    def _distances(self, rows: Rows) -> Doubles:
        """The squared distances of all pairs of rows, by group."""
        count = len(rows)
        found = np.zeros((len(self._theta) - 1, count, count))
        for column, group in zip(rows.T, self.groups, strict=True):
            found[group] += (column[:, None] - column[None]) ** 2
        return found

    def _loss(
        self, theta: Doubles, distances: Doubles, trend: Doubles, values: Doubles
    ) -> tuple[float, Doubles]:
        """The negative logarithm of the posterior density of lengths and noise, and its gradient.

        The variance of the process is that which fits best.
        """
        count = len(values)
        weights, noise = np.exp(-2 * theta[:-1]), math.exp(theta[-1])
        squares = (weights @ distances.reshape(len(weights), -1)).reshape(count, count)
        covariance = kernel(squares) + trend
        covariance[np.diag_indices(count)] += noise + _JITTER
        try:
            factor = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return math.inf, np.zeros_like(theta)
        root = np.linalg.inv(factor)
        inverse = root.T @ root
        solved = inverse @ values
        trials = count + _PRIOR_TRIALS
        variance = (float(values @ solved) + _PRIOR_TRIALS) / trials
        off = (theta - self._usual) / self._spread
        logarithm = float(np.log(np.diag(factor)).sum())
        loss = 0.5 * (trials * math.log(variance) + float(off @ off)) + logarithm
        outer = 0.5 * (inverse - np.outer(solved, solved) / variance)
        gradient = off / self._spread
        slopes = (outer * _slope(squares)).ravel()
        gradient[:-1] -= 2 * weights * (distances.reshape(len(weights), -1) @ slopes)
        gradient[-1] += float(np.trace(outer)) * noise
        return loss, gradient

    # Predictions

    def condition(self, rows: Rows, pool: Rows) -> None:
        """Predict this pool from these rows from now on."""
        self._noise = math.exp(self._theta[-1]) + _JITTER
        self._scales = np.ones(len(self._near))
        self._scales[self._near] = np.exp(-self._theta[:-1])[self.groups]
        # Single precision is enough for choosing, and twice as fast.
        self._pool = (pool * self._scales).astype(np.float32)
        self._pool_squares = _lengths(self._pool[:, self._near])
        room, size = max(64, 2 * len(rows)), len(rows)
        self._known = np.empty((room, rows.shape[1]))
        self._inverse = np.zeros((room, room))
        self._parts = np.empty((room, len(pool)), np.float32)
        self.size = size
        self._known[:size] = scaled = rows * self._scales
        covariance = self._covariance(scaled, scaled)
        covariance[np.diag_indices(size)] += self._noise
        # The inverse of the Cholesky factor, and its product with the covariances to the pool.
        inverse = np.linalg.inv(np.linalg.cholesky(covariance))
        self._inverse[:size, :size] = inverse
        to_pool = self._to_pool(scaled)
        np.matmul(inverse.astype(np.float32), to_pool, out=self._parts[:size])
        self._rest = 1.0 + _lengths(self._pool[:, self._linear])
        self._rest -= np.einsum("ij,ij->j", self._parts[:size], self._parts[:size])

    def append(self, row: Rows) -> None:
        """Condition on a row more."""
        if self.size == len(self._known):
            self._known = np.concatenate([self._known, np.empty_like(self._known)])
            self._parts = np.concatenate([self._parts, np.empty_like(self._parts)])
            inverse = np.zeros((2 * self.size, 2 * self.size))
            inverse[: self.size, : self.size] = self._inverse
            self._inverse = inverse
        size = self.size
        scaled = (row * self._scales)[None]
        near = self._covariance(scaled, self._known[:size])[0]
        part = self._inverse[:size, :size] @ near
        own = 1.0 + float(_lengths(scaled[:, self._linear])[0]) + self._noise
        left = math.sqrt(max(_JITTER, own - float(part @ part)))
        to_pool = self._to_pool(scaled)[0]
        self._parts[size] = (to_pool - part.astype(np.float32) @ self._parts[:size]) / left
        self._inverse[size, :size] = -(part @ self._inverse[:size, :size]) / left
        self._inverse[size, size] = 1.0 / left
        self._known[size] = scaled[0]
        self._rest = self._rest - self._parts[size] ** 2
        self.size = size + 1

    def predict(self, values: Doubles) -> tuple[Doubles, Doubles]:
        """The expected value and its standard deviation for each row of the pool.

        `values` are those of the rows it is conditioned on, in their order.
        """
        mean = values.mean()
        size = self.size
        solved = self._inverse[:size, :size] @ (values - mean)
        variance = (float(solved @ solved) + _PRIOR_TRIALS) / (size + _PRIOR_TRIALS)
        expected = mean + solved.astype(np.float32) @ self._parts[:size]
        return expected, np.sqrt(variance * np.maximum(self._rest, 1e-6))

    def _covariance(self, rows: Rows, others: Rows) -> Floats:
        near = others[:, self._near]
        found = kernel(_squares(rows[:, self._near], near, _lengths(near)))
        found += rows[:, self._linear] @ others[:, self._linear].T
        return found

    def _to_pool(self, rows: Rows) -> Floats:
        """The covariances of rows and the pool."""
        single = rows.astype(np.float32)
        near = self._pool[:, self._near]
        found = kernel(_squares(single[:, self._near], near, self._pool_squares))
        if self._linear.any():
            found += single[:, self._linear] @ self._pool[:, self._linear].T
        return found

    def expect(self, values: Doubles) -> Doubles:
        """The expected value of each row of the pool, for other values of the same rows."""
        size = self.size
        solved = self._inverse[:size, :size] @ values
        return np.asarray(solved.astype(np.float32) @ self._parts[:size])


def _lengths(rows: Floats) -> Floats:
    """The squared lengths of rows."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _squares(rows: Floats, others: Floats, lengths: Floats) -> Floats:
    """The squared distances between rows and others, whose squared lengths are given."""
    found = _lengths(rows)[:, None] + lengths[None] - 2 * rows @ others.T
    return np.asarray(np.maximum(found, 0.0))
