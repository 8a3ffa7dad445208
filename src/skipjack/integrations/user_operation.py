"""A user's kernel as an operation: what it computes, said by its adapter."""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skipjack.core.nest import Tensor
from skipjack.core.operation import Array, Arrays, OperationClass, Tolerance
from skipjack.core.problem import Problem
from skipjack.errors import ProblemError, blaming
from skipjack.integrations.adapter import Adapter
from skipjack.operations.attributes import refuse_unknown, require_rank
from skipjack.solvers.gpu.source import kernel_text
from skipjack.solvers.module_names import read_module

_LAUNCHING = ("shape", "inputs", "outputs", "arguments", "constants", "grid")
_CHECKING = ("reference", "magnitude", "tolerance", "domain")
_CALL = "triton_kernel"


class UserOperation:
    """Implements `skipjack.core.operation.Operation`, with one output or several.

    A problem's attribute ``source`` names the text of the kernel and of how it is launched, so that
    results of another text are never taken for those of this one.
    """

    operation_class: OperationClass = "vector"

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter

    @property
    def name(self) -> str:
        return self.adapter.name

    @property
    def example(self) -> str:
        return f"{self.name}:{'x'.join(['1024'] * len(self.adapter.shape))}"

    @property
    def dtypes(self) -> Sequence[str]:
        return self.adapter.dtypes

    @property
    def domain(self) -> tuple[float, float]:
        return self.adapter.domain

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        """As many sizes as the adapter names; the source is filled in."""
        refuse_unknown(attributes, ("source",), where)
        require_rank(shape, len(self.adapter.shape), "x".join(self.adapter.shape), where)
        return (("source", attributes.get("source") or source_digest(self.adapter)),)

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return self.adapter.tensors(self.adapter.inputs, problem.shape)

    def output(self, problem: Problem) -> Tensor:
        """The first."""
        return self.outputs(problem)[0]

    def outputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return self.adapter.tensors(self.adapter.outputs, problem.shape)

    def flops(self, problem: Problem) -> int:
        at = self.adapter.sizes(problem.shape)
        return int(self.adapter.compute(self.adapter.steps, at, "flops"))

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        """Of the first output."""
        return self.references(problem, arrays)[self.output(problem).name]

    def references(self, problem: Problem, arrays: Arrays) -> Arrays:
        return self._call(self.adapter.reference, "reference", problem, arrays)

    def magnitude(self, problem: Problem, arrays: Arrays) -> Array:
        """Of the first output."""
        return self.magnitudes(problem, arrays)[self.output(problem).name]

    def magnitudes(self, problem: Problem, arrays: Arrays) -> Arrays:
        """By the adapter's function; else each result, and the mean of all for those near 0."""
        if self.adapter.magnitude is not None:
            return self._call(self.adapter.magnitude, "magnitude", problem, arrays)
        exact = self.references(problem, arrays)
        return {name: np.abs(a) + np.mean(np.abs(a), dtype=np.float64) for name, a in exact.items()}

    def tolerance(self, problem: Problem) -> Tolerance:
        return Tolerance(self.adapter.tolerance)

    def _call(self, function: Any, what: str, problem: Problem, arrays: Arrays) -> Arrays:
        names = [tensor.name for tensor in self.inputs(problem)]
        given: dict[str, Any] = {name: arrays[name] for name in names}
        sizes = self.adapter.sizes(problem.shape)
        wanted = inspect.signature(function).parameters
        given |= {name: size for name, size in sizes.items() if name in wanted}
        with blaming(f"the {what} of {self.adapter.function}"):
            found = function(**given)
        return self._by_name(found, what, problem)

    def _by_name(self, found: Any, what: str, problem: Problem) -> Arrays:
        tensors = self.outputs(problem)
        if not isinstance(found, Mapping):
            several = found if isinstance(found, tuple) else (found,)
            found = dict(zip((tensor.name for tensor in tensors), several, strict=False))
        result = {}
        for tensor in tensors:
            if tensor.name not in found:
                raise ProblemError(
                    f"the {what} of {self.adapter.function} gives no {tensor.name!r}"
                )
            array = _array(found[tensor.name])
            if array.shape != tensor.shape:
                raise ProblemError(
                    f"the {what} of {self.adapter.function} gives {tensor.name!r} of shape "
                    f"{array.shape}, the adapter says {tensor.shape}"
                )
            result[tensor.name] = array
        return result


def _array(value: Any) -> Array:
    """An array, also of one of torch's tensors."""
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def source_digest(adapter: Adapter) -> str:
    """Eight hexadecimal digits of a kernel's text and of how its adapter launches and checks it.

    Machines that build and machines that run must agree on it, so it is made of canonical text and
    of nothing that depends on a Python's version. What is checked against counts, too: a config
    that was wrong by one reference may be right by the next. What changes no result (the space, the
    types that are offered) is left out: results stay valid when it is edited.
    """
    path = adapter.path
    texts = [kernel_text(str(path), adapter.function), *_said(path, adapter.function)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def _said(path: Path, function: str) -> Iterator[str]:
    """What the adapter says of launches and checks, with the functions of the file that it uses."""
    names = read_module(path, path.stat().st_mtime_ns)
    for keyword in _keywords(path, function):
        yield ast.unparse(keyword)
        mentioned = {node.id for node in ast.walk(keyword) if isinstance(node, ast.Name)}
        for name in sorted(mentioned & names.definitions.keys() - {function}):
            yield kernel_text(str(path), name)


def _keywords(path: Path, function: str) -> Iterator[ast.keyword]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        of = node.args[0]
        if called == _CALL and isinstance(of, ast.Name) and of.id == function:
            yield from sorted(
                (one for one in node.keywords if one.arg in (*_LAUNCHING, *_CHECKING)),
                key=lambda one: one.arg or "",
            )
