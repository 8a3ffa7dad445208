"""What a Triton function is, as text: what decides its machine code, and nothing else.

Comments, docstrings, blank lines and decorators are left out, and so is all of the file that the
function does not use; functions that it calls and constants that it reads are part of it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Mapping
from typing import Any

_PLAIN = (bool, int, float, str)


def function_text(function: Any) -> str:
    """Canonical text of a ``triton.jit`` function and of all that it uses; works in notebooks."""
    texts: dict[str, str] = {}
    _collect(function, texts)
    return "\n".join(f"{name}: {texts[name]}" for name in sorted(texts))


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _collect(function: Any, texts: dict[str, str]) -> None:
    # Without its module, whose name depends on how the file was loaded.
    key = f"def {function.__name__}"
    while key in texts:
        key += "'"  # another function of this name, from elsewhere
    tree = _bare(function.src)
    texts[key] = ast.unparse(tree)
    scope = _scope(function)
    for used in _names(tree):
        _collect_value(used, _value(used, scope), texts)


def _collect_value(used: str, value: Any, texts: dict[str, str]) -> None:
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if isinstance(value, _PLAIN):
        texts[f"{used} ="] = repr(value)
    elif type(value).__name__ == "dtype":
        texts[f"{used} ="] = str(value)
    elif hasattr(value, "src") and not _is_tritons(value) and not _is_among(value, texts):
        _collect(value, texts)


def _is_among(function: Any, texts: Mapping[str, str]) -> bool:
    return ast.unparse(_bare(function.src)) in texts.values()


def _bare(source: str) -> ast.Module:
    """Without the function's decorators and docstring."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return tree


def _names(tree: ast.AST) -> list[str]:
    """``a`` and ``a.b.c`` as the text reads them from outside of the function, each once."""
    nodes = list(ast.walk(tree))
    local = {node.arg for node in nodes if isinstance(node, ast.arg)}
    local |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute):
            text = ast.unparse(node)
            if text.replace(".", "").isidentifier() and text.partition(".")[0] not in local:
                found[text] = None
    return list(found)


def _scope(function: Any) -> Mapping[str, Any]:
    inner = inspect.getclosurevars(function.fn).nonlocals
    return {**function.fn.__globals__, **inner}


def _value(name: str, scope: Mapping[str, Any]) -> Any:
    first, *rest = name.split(".")
    value = scope.get(first)
    for part in rest:
        value = getattr(value, part, None)
    return value


def _is_tritons(value: Any) -> bool:
    """Part of Triton, whose version is in the key besides."""
    return str(getattr(value, "__module__", "")).split(".")[0] == "triton"
