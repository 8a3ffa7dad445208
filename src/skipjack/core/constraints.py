"""Constraints of a parameter space: an expression, or a function whose arguments are parameters."""

from __future__ import annotations

import inspect
import io
import textwrap
import tokenize
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from skipjack.core.config import Value
from skipjack.core.expressions import Expression
from skipjack.errors import SpaceError

ConstraintLike = str | Callable[..., object]

_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
"""Tokens that do not change the meaning of a function or follow from the others."""


@dataclass(frozen=True, slots=True)
class ExpressionConstraint:
    """A constraint that holds if its expression is true."""

    expression: Expression

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.expression.names))

    @property
    def text(self) -> str:
        return self.expression.text

    @property
    def identity(self) -> str:
        """Text that equal constraints share."""
        return self.expression.text

    def holds(self, values: Mapping[str, Value]) -> bool:
        return self.expression.holds(values)


@dataclass(frozen=True, slots=True)
class CallableConstraint:
    """A constraint that holds if its function returns a true value."""

    function: Callable[..., object]
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__qualname__", type(self.function).__qualname__))

    @property
    def identity(self) -> str:
        """The function's full name and source, so that an edited function is a new constraint."""
        module = getattr(self.function, "__module__", "")
        return f"{module}.{self.text}:{_what(self.function)}:{_bound_values(self.function)}"

    def holds(self, values: Mapping[str, Value]) -> bool:
        arguments = {name: values[name] for name in self.names}
        try:
            return bool(self.function(**arguments))
        except Exception as error:
            where = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            raise SpaceError(
                f"constraint `{self.text}` fails for {where}: {type(error).__name__}: {error}"
            ) from error


Constraint = ExpressionConstraint | CallableConstraint


def read_constraint(constraint: ConstraintLike, known: frozenset[str]) -> Constraint:
    """Parse a constraint; `SpaceError` if it reads a parameter that does not exist."""
    read: Constraint
    if isinstance(constraint, str):
        read = ExpressionConstraint(Expression(constraint))
    else:
        read = CallableConstraint(constraint, _argument_names(constraint))
    unknown = sorted(set(read.names) - known)
    if unknown:
        raise SpaceError(
            f"constraint `{read.text}` reads {', '.join(unknown)}, which is not a parameter; "
            f"the parameters are {', '.join(sorted(known))}"
        )
    return read


def _argument_names(function: Callable[..., object]) -> tuple[str, ...]:
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise SpaceError(
            f"cannot tell which parameters constraint {function!r} reads: it has no signature; "
            "wrap it in a Python function whose arguments are named after them"
        ) from None
    for argument in arguments:
        if argument.kind not in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY):
            raise SpaceError(
                f"constraint {function!r} must name every parameter it reads; `{argument}` names "
                "none"
            )
    # An argument with a default is a setting of the function, not a parameter of the space.
    return tuple(a.name for a in arguments if a.default is a.empty)


def _what(function: Callable[..., object]) -> str:
    """The source of a function without comments and layout: the same in all versions of Python.

    If the source is not available, the byte code, which differs between versions.
    """
    code = getattr(function, "__code__", None)
    try:
        source = textwrap.dedent(inspect.getsource(function))
        words = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        return _code_text(code)
    text = "".join(word.string for word in words if word.type not in _LAYOUT)
    # Several lambdas may share a line, so that the source alone does not tell them apart.
    alone = getattr(function, "__name__", "") != "<lambda>"
    return text if alone else text + _code_text(code)


def _code_text(code: CodeType | None) -> str:
    if code is None:
        return ""
    constants = ",".join(_constant_text(constant) for constant in code.co_consts)
    return f"{code.co_code.hex()}|{constants}|{','.join(code.co_names)}"


def _constant_text(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return _code_text(constant)
    if isinstance(constant, frozenset):  # printed in an order that changes from run to run
        return f"{{{','.join(sorted(map(repr, constant)))}}}"
    return repr(constant)


def _bound_values(function: Callable[..., object]) -> str:
    """Defaults and closed-over values whose `repr` is the same in every run."""
    defaults = getattr(function, "__defaults__", None) or ()
    keyword_defaults = getattr(function, "__kwdefaults__", None) or {}
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    values = (*defaults, *keyword_defaults.values(), *cells)
    return ",".join(repr(v) for v in values if isinstance(v, (bool, int, float, str, tuple)))
