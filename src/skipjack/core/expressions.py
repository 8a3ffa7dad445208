"""The one evaluator for expressions that come from files or users.

``tile_m * tile_n <= 4096 and dtype in ("f16", "bf16")``: numbers, strings, names, arithmetic,
comparisons, logic, ``x if c else y`` and a few functions. Any other Python syntax is rejected when
the expression is parsed. Sizes are bounded, so that evaluation always ends quickly.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from skipjack.core.config import Value
from skipjack.core.operators import FUNCTIONS, MAX_BITS, SCALAR, Undefined
from skipjack.errors import ExpressionError

MAX_LENGTH = 2000
MAX_DEPTH = 100
MAX_NODES = 2000

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_UNARY: dict[type[ast.AST], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Not: "not"}


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or string; a tuple of them on the right of ``in``."""

    value: Value | tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, whose value the mapping provides."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator of `skipjack.core.operators` applied to arguments."""

    operator: str
    arguments: tuple[Node, ...]


Node = Constant | Name | Apply


class Expression:
    """A parsed and validated expression. Parsing the same text again is free."""

    __slots__ = ("_compute", "names", "node", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.node, self.names, self._compute = _read(text)

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        """The value with `values` for the names; `ExpressionError` if it is undefined."""
        result = self._result(values)
        if isinstance(result, Undefined):
            raise _undefined(self.text, result)
        value: Value = result
        return value

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether it is true. It is not if it divides by zero or the like."""
        result = self._result(values)
        if not isinstance(result, Undefined):
            return bool(result)
        if result.mistake:
            raise _undefined(self.text, result)
        return False

    def _result(self, values: Mapping[str, Value]) -> Any:
        try:
            return self._compute(values)
        except KeyError:
            missing = ", ".join(sorted(name for name in self.names if name not in values))
            have = ", ".join(sorted(values)) or "none"
            raise ExpressionError(
                f"expression {self.text!r} needs {missing}; the available names are: {have}"
            ) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def names_of(node: Node) -> frozenset[str]:
    if isinstance(node, Name):
        return frozenset((node.name,))
    if isinstance(node, Constant):
        return frozenset()
    return frozenset().union(*map(names_of, node.arguments))


def _undefined(text: str, result: Undefined) -> ExpressionError:
    return ExpressionError(f"expression {text!r} has no value: {result.reason}")


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[Node, frozenset[str], Callable[[Mapping[str, Value]], Any]]:
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            f"expression {text[:40]!r}... has {len(text)} characters; the limit is {MAX_LENGTH}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd syntax is either rejected below or harmless
            tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"expression {text!r} cannot be read: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"expression {text[:40]!r}... cannot be read") from None
    node = _Reader(text).read(tree.body, 0)
    return node, names_of(node), _compile(node)


class _Reader:
    """Converts Python's syntax tree to nodes and rejects whatever is not allowed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._nodes = 0

    def read(self, tree: ast.expr, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise ExpressionError(
                f"expression {self._text[:40]!r}... is nested more than {MAX_DEPTH} levels deep"
            )
        # The middle of `a < b < c` is computed twice, so that nested chains double at each level.
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ExpressionError(
                f"expression {self._text[:40]!r}... has more than {MAX_NODES} parts"
            )
        deeper = depth + 1
        match tree:
            case ast.Constant():
                return self._constant(tree)
            case ast.Name(id=name) if "__" not in name:
                return Name(name)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return self._fold(tree, _UNARY[type(op)], self.read(operand, deeper))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                pair = self.read(left, deeper), self.read(right, deeper)
                return self._fold(tree, _BINARY[type(op)], *pair)
            case ast.BoolOp(op=op, values=values):
                name = "and" if isinstance(op, ast.And) else "or"
                return self._joined(tree, name, [self.read(value, deeper) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                three = (self.read(part, deeper) for part in (test, body, orelse))
                return self._fold(tree, "if", *three)
            case ast.Compare():
                return self._comparison(tree, deeper)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return self._call(tree, name, [self.read(arg, deeper) for arg in args])
        raise self._refuse(tree, "is not allowed")

    def _constant(self, tree: ast.Constant) -> Constant:
        value = tree.value
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise self._refuse(tree, f"has more than {MAX_BITS} bits")
        if not isinstance(value, (bool, int, float, str)):
            raise self._refuse(tree, "is not allowed")
        return Constant(value)

    def _comparison(self, tree: ast.Compare, depth: int) -> Node:
        operands = [tree.left, *tree.comparators]
        links: list[Node] = []
        for op, left, right in zip(tree.ops, operands, operands[1:], strict=False):
            if type(op) not in _BINARY:
                raise self._refuse(tree, "is not allowed")
            membership = isinstance(op, (ast.In, ast.NotIn))
            choices = self._choices(right, depth) if membership else self.read(right, depth)
            links.append(self._fold(tree, _BINARY[type(op)], self.read(left, depth), choices))
        return self._joined(tree, "and", links)

    def _choices(self, tree: ast.expr, depth: int) -> Constant:
        if not isinstance(tree, (ast.Tuple, ast.List, ast.Set)):
            raise self._refuse(tree, "must be a list of constants")
        values: list[Value] = []
        for element in tree.elts:
            node = self.read(element, depth)
            if not isinstance(node, Constant) or isinstance(node.value, tuple):
                raise self._refuse(element, "is not a constant")
            values.append(node.value)
        return Constant(tuple(values))

    def _call(self, tree: ast.Call, name: str, arguments: list[Node]) -> Node:
        _, fewest, most = FUNCTIONS[name]
        if len(arguments) < fewest or (len(arguments) > most and name not in ("min", "max")):
            raise self._refuse(tree, f"has {len(arguments)} arguments; {name} takes {fewest}")
        if name in ("min", "max"):
            return self._joined(tree, name, arguments)
        return self._fold(tree, name, *arguments)

    def _joined(self, tree: ast.expr, operator: str, parts: list[Node]) -> Node:
        """Combine many parts with an associative binary operator into a balanced tree."""
        while len(parts) > 1:
            pairs = (parts[at : at + 2] for at in range(0, len(parts), 2))
            parts = [self._fold(tree, operator, *p) if len(p) > 1 else p[0] for p in pairs]
        return parts[0]

    def _fold(self, tree: ast.expr, operator: str, *arguments: Node) -> Node:
        """Apply the operator at once if all arguments are constant: ``2**30`` becomes a number."""
        if not all(isinstance(argument, Constant) for argument in arguments):
            return Apply(operator, arguments)
        values = [argument.value for argument in arguments if isinstance(argument, Constant)]
        result = SCALAR[operator](*values)
        if isinstance(result, Undefined):
            if result.mistake:
                raise self._refuse(tree, f"has no value: {result.reason}")
            return Apply(operator, arguments)
        return Constant(result)

    def _refuse(self, tree: ast.AST, why: str) -> ExpressionError:
        part = ast.get_source_segment(self._text.strip(), tree) or type(tree).__name__
        return ExpressionError(f"expression {self._text!r}: {part!r} {why}")


def _compile(node: Node) -> Callable[[Mapping[str, Value]], Any]:
    """Compile to closures, which are several times faster than walking the tree."""
    if isinstance(node, Constant):
        constant = node.value
        return lambda values: constant
    if isinstance(node, Name):
        name = node.name
        return lambda values: values[name]
    function = SCALAR[node.operator]
    parts = [_compile(argument) for argument in node.arguments]
    if len(parts) == 1:
        (only,) = parts
        return lambda values: function(only(values))
    if len(parts) == 2:
        left, right = parts
        return lambda values: function(left(values), right(values))
    return lambda values: function(*[part(values) for part in parts])
