"""What of a kernel's syntax decides its machine code: the part that all texts of kernels share.

A text of a kernel, from a file that is not loaded or from a function that is, holds no docstrings
and no decorators of tuners, and goes on to what the kernel mentions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_COMPILED = ("jit", "constexpr_function", "aggregate")
"""Decorators that decide what is compiled; tuners and heuristics around them do not."""


def strip(tree: ast.AST) -> None:
    """Take out docstrings, and decorators that do not change what is compiled."""
    for inner in ast.walk(tree):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if ast.get_docstring(inner, clean=False) is not None:
                inner.body = inner.body[1:] or [ast.Pass()]
            inner.decorator_list = [one for one in inner.decorator_list if _compiles(one)]


def mentioned(node: ast.AST) -> Iterator[str]:
    """Names and dotted names; ``a.b`` gives itself and not ``a`` once more."""
    match node:
        case ast.Attribute(value=value):
            if dotted := _dotted(node):
                yield dotted
            else:
                yield from mentioned(value)
        case ast.Name(id=name):
            yield name
        case _:
            for child in ast.iter_child_nodes(node):
                yield from mentioned(child)


def _compiles(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _COMPILED


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            before = _dotted(value)
            return f"{before}.{attr}" if before else ""
        case _:
            return ""
