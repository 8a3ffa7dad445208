"""The digest of a kernel's text and of how its adapter launches and checks it.

Machines that build and machines that run must agree on it, so it is made of canonical text and of
nothing that depends on a Python's version. What is checked against counts, too: a config that was
wrong by one reference may be right by the next. What changes no result (the space, the types that
are offered) is left out: results stay valid when it is edited.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from skipjack.integrations.adapter import Adapter
from skipjack.solvers.gpu.source import kernel_text
from skipjack.solvers.module_names import ModuleNames, read_module

_LAUNCHING = ("shape", "inputs", "outputs", "arguments", "constants", "grid")
_CHECKING = ("reference", "magnitude", "tolerance", "domain")
_CALL = "triton_kernel"


def source_digest(adapter: Adapter) -> str:
    """Eight hexadecimal digits."""
    path = adapter.path
    texts = [kernel_text(str(path), adapter.function), *_said(path, adapter.function)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]


def _said(path: Path, function: str) -> Iterator[str]:
    """What the adapter says of launches and checks, with the functions of the file that it uses."""
    names = read_module(path, path.stat().st_mtime_ns)
    for keyword in _keywords(path, function):
        yield ast.unparse(keyword)
        yield from (kernel_text(str(path), name) for name in _used(keyword, names, function))


def _used(keyword: ast.keyword, names: ModuleNames, function: str) -> list[str]:
    mentioned = {node.id for node in ast.walk(keyword) if isinstance(node, ast.Name)}
    return sorted(name for name in mentioned if name in names.definitions and name != function)


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
