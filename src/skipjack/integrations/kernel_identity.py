"""What a Triton function is, as text: what decides its machine code, and nothing else.

Comments, docstrings, blank lines and decorators are left out, and so is all of the file that the
function does not use; functions that it calls and constants that it reads are part of it. A kernel
in a file that is not loaded has its text from `skipjack.solvers.gpu.source`.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skipjack.solvers.kernel_syntax import mentioned, strip

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def function_text(function: Any) -> str:
    """Canonical text of a ``triton.jit`` function and of all that it uses; works in notebooks."""
    texts: dict[str, str] = {}
    _collect(function, texts)
    return "\n".join(f"{name}: {texts[name]}" for name in sorted(texts))


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_tritons(value: Any) -> bool:
    """Part of Triton, whose version is in the key besides."""
    return str(getattr(value, "__module__", "")).split(".")[0] == "triton"


def _collect(function: Any, texts: dict[str, str]) -> None:
    # Without its module, whose name depends on how the file was loaded.
    key = f"def {function.__name__}"
    while key in texts:
        key += "'"  # another function of this name, from elsewhere
    tree = _bare(function.src)
    texts[key] = ast.unparse(tree)
    inner = inspect.getclosurevars(function.fn).nonlocals
    scope = {**function.fn.__globals__, **inner}
    for used in _names(tree):
        _collect_value(used, _value(used, scope), texts)


def _collect_value(used: str, value: Any, texts: dict[str, str]) -> None:
    value = unwrap(value)
    if value is None:
        return
    if (text := value_text(value)) is not None:
        texts[f"{used} ="] = text
    elif isinstance(value, tuple | list | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        texts[f"{used} ="] = f"{type(value).__name__} of {len(value)}"
        for at, item in items:
            _collect_value(f"{used}[{at!r}]", item, texts)
    elif (
        hasattr(value, "src")
        and not is_tritons(value)
        and ast.unparse(_bare(value.src)) not in texts.values()
    ):
        _collect(value, texts)


def _bare(source: str) -> ast.Module:
    tree = ast.parse(source)
    strip(tree)
    return tree


def _names(tree: ast.AST) -> list[str]:
    """``a`` and ``a.b.c`` as the text reads them from outside of the function, each once."""
    nodes = list(ast.walk(tree))
    local = {node.arg for node in nodes if isinstance(node, ast.arg)}
    local |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    outer = (name for name in mentioned(tree) if name.partition(".")[0] not in local)
    return list(dict.fromkeys(start for name in outer for start in _starts(name)))


def _starts(name: str) -> Iterator[str]:
    """``a``, ``a.b`` and ``a.b.c``: any of them may be a constant with methods."""
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _value(name: str, scope: Mapping[str, Any]) -> Any:
    first, *rest = name.split(".")
    value = scope.get(first)
    for part in rest:
        value = getattr(value, part, None)
    return value


def value_text(value: Any) -> str | None:
    """Of a constant, the same in every process: numbers, text, Triton's types, tuples and sets of
    these. Anything else has none."""
    value = unwrap(value)
    if isinstance(value, _PLAIN):
        return repr(value)
    if type(value).__name__ == "dtype":
        return str(value)
    if isinstance(value, tuple):
        return _joined(map(value_text, value), "()")
    if isinstance(value, frozenset):  # its order is another one in every process
        return _joined(sorted(map(value_text, value), key=str), "{}")
    return None


def unwrap(value: Any) -> Any:
    """What stands in a ``tl.constexpr``."""
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value


def _joined(texts: Iterable[str | None], brackets: str) -> str | None:
    known = list(texts)
    if any(text is None for text in known):
        return None
    return f"{brackets[0]}{', '.join(map(str, known))}{brackets[1]}"
