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
"""Tokens that do not change what a function does, or are seen from the others."""


@dataclass(frozen=True, slots=True)
class ExpressionConstraint:
    """Holds where its expression is true."""

    expression: Expression

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters it reads."""
        return tuple(sorted(self.expression.names))

    @property
    def text(self) -> str:
        """As it was written."""
        return self.expression.text

    @property
    def identity(self) -> str:
        """What makes it the constraint it is."""
        return self.expression.text

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether these values keep to it."""
        return self.expression.holds(values)


@dataclass(frozen=True, slots=True)
class CallableConstraint:
    """Holds where its function returns something true."""

    function: Callable[..., object]
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__qualname__", type(self.function).__qualname__))

    @property
    def identity(self) -> str:
        """The function's full name and what it does, so that an edited function is another one."""
        module = getattr(self.function, "__module__", "")
        return f"{module}.{self.text}:{_what(self.function)}:{_bound_values(self.function)}"

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether these values keep to it."""
        arguments = {name: values[name] for name in self.names}
        try:
            return bool(self.function(**arguments))
        except Exception as error:
            where = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
            raise SpaceError(
                f"constraint `{self.text}` fails at {where}: {type(error).__name__}: {error}"
            ) from error


Constraint = ExpressionConstraint | CallableConstraint


def read_constraint(constraint: ConstraintLike, known: frozenset[str]) -> Constraint:
    """A constraint over parameters that exist, or `SpaceError`."""
    read: Constraint
    if isinstance(constraint, str):
        read = ExpressionConstraint(Expression(constraint))
    else:
        read = CallableConstraint(constraint, _argument_names(constraint))
    unknown = sorted(set(read.names) - known)
    if unknown:
        raise SpaceError(
            f"constraint `{read.text}` reads {', '.join(unknown)}, which is no parameter; "
            f"the parameters are {', '.join(sorted(known))}"
        )
    return read


def _argument_names(function: Callable[..., object]) -> tuple[str, ...]:
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise SpaceError(
            f"constraint {function!r} does not say which parameters it reads"
        ) from None
    for argument in arguments:
        if argument.kind not in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY):
            raise SpaceError(
                f"constraint {function!r} must name the parameters it reads; `{argument}` does not"
            )
    # An argument with a default is a setting of the function, not a parameter of the space.
    return tuple(a.name for a in arguments if a.default is a.empty)


def _what(function: Callable[..., object]) -> str:
    """What a function does, as text that is the same under every version of Python.

    Where the source is not at hand it is the byte code, which is not.
    """
    code = getattr(function, "__code__", None)
    try:
        source = textwrap.dedent(inspect.getsource(function))
        words = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        return _code_text(code)
    text = "".join(word.string for word in words if word.type not in _LAYOUT)
    # Several lambdas may share a line.
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
    """Defaults and closed-over values, as far as they print the same in every run."""
    defaults = getattr(function, "__defaults__", None) or ()
    keyword_defaults = getattr(function, "__kwdefaults__", None) or {}
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    values = (*defaults, *keyword_defaults.values(), *cells)
    return ",".join(repr(v) for v in values if isinstance(v, (bool, int, float, str, tuple)))
