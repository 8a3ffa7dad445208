"""What a Triton function or a hook does, as text that is the same in every process."""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from skipjack.solvers import canonicalize, mentioned_names

# The identity of a Triton function as text: exactly what determines its machine code.
#
# Comments, docstrings, blank lines, decorators and unused parts of the file are left out; functions
# that it calls and constants that it reads are included. For a kernel in a file that is not
# imported, see `skipjack.solvers.gpu.triton.kernel_source`.

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def function_text(function: Any) -> str:
    """Canonical text of a ``triton.jit`` function and all that it uses; works in notebooks."""
    texts: dict[str, str] = {}
    _collect(function, texts)
    return "\n".join(f"{name}: {texts[name]}" for name in sorted(texts))


def digest(text: str) -> str:
    """A short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_tritons(value: Any) -> bool:
    """Whether a value is part of Triton, whose version is in the key anyway."""
    return str(getattr(value, "__module__", "")).split(".")[0] == "triton"


def _collect(function: Any, texts: dict[str, str]) -> None:
    # Without its module, whose name depends on how the file was imported.
    key = f"def {function.__name__}"
    while key in texts:
        key += "'"  # another function of the same name
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
    canonicalize(tree)
    return tree


def _names(tree: ast.AST) -> list[str]:
    """Names such as ``a`` and ``a.b.c`` that the function reads from outside, each once."""
    nodes = list(ast.walk(tree))
    local = {node.arg for node in nodes if isinstance(node, ast.arg)}
    local |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    outer = (name for name in mentioned_names(tree) if name.partition(".")[0] not in local)
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
    """The text of a constant, the same in every process; None if the value is not a constant.

    Constants are numbers, strings, Triton's types, and tuples and sets of these.
    """
    value = unwrap(value)
    if isinstance(value, _PLAIN):
        return repr(value)
    if type(value).__name__ == "dtype":
        return str(value)
    if isinstance(value, tuple):
        return _joined(map(value_text, value), "()")
    if isinstance(value, frozenset):  # its order differs between processes
        return _joined(sorted(map(value_text, value), key=str), "{}")
    return None


def unwrap(value: Any) -> Any:
    """The value of a ``tl.constexpr``; other values unchanged."""
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value


def _joined(texts: Iterable[str | None], brackets: str) -> str | None:
    known = list(texts)
    if any(text is None for text in known):
        return None
    return f"{brackets[0]}{', '.join(map(str, known))}{brackets[1]}"


# The identity of a hook as text: it changes when the hook is edited, and is the same everywhere.
#
# It contains the compiled code of the function, the values that it closes over or reads from its
# module, the user's functions that it calls, and the plain attributes of a callable object.
# Variables that a hook assigns to, and mutable containers, are state and not included: a hook that
# counts its calls keeps its identity.

_READS, _WRITES = ("LOAD_GLOBAL", "LOAD_NAME"), ("STORE_GLOBAL", "STORE_DEREF")
_INSTALLED = tuple(
    Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def hook_text(hook: Callable[..., object]) -> str:
    """A function's name and a digest of its code and values."""
    name = getattr(hook, "__qualname__", type(hook).__qualname__)
    body = _of_function(hook, set()) if isinstance(hook, FunctionType) else _of(hook, set())
    return f"{name}:{hashlib.sha256(body.encode()).hexdigest()[:12]}"


def _of(value: Any, seen: set[int]) -> str:
    """The text of a value that a hook reads; for other objects, their type."""
    if (text := value_text(value)) is not None:
        return text
    match value:
        case tuple():
            return f"({', '.join(_of(one, seen) for one in value)})"
        case functools.partial():
            given = [*value.args, *sorted(value.keywords.items())]
            return f"{_of(value.func, seen)} with {[_of(one, seen) for one in given]}"
        case MethodType():
            return f"{_of(value.__func__, seen)} of {_of_object(value.__self__)}"
        case FunctionType():
            if id(value) in seen:
                return value.__qualname__
            return _name(value) if _is_installed(value) else _of_function(value, seen)
    if (kernel := _kernel(value)) is not None:
        return _name(kernel) if is_tritons(kernel) else digest(function_text(kernel))
    if callable(value) and isinstance(value.__call__, MethodType):
        return _of(value.__call__, seen)
    return _name(value if hasattr(value, "__qualname__") else type(value))


def _of_function(function: FunctionType, seen: set[int]) -> str:
    seen.add(id(function))
    # Sorted by name: a function that is reached twice is written out only once.
    read = [(name, _of(value, seen)) for name, value in _read_by(function)]
    given = [_of(one, seen) for one in function.__defaults__ or ()]
    named = {name: _of(one, seen) for name, one in (function.__kwdefaults__ or {}).items()}
    return f"{_of_code(function.__code__, function.__doc__)} {read} {given} {named}"


def _of_code(code: CodeType, docstring: str | None = None) -> str:
    constants = [
        _of_code(one) if isinstance(one, CodeType) else value_text(one)
        for one in (None if one is docstring else one for one in code.co_consts)
    ]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return f"{code.co_code.hex()} {constants} {names}"


def _read_by(function: FunctionType) -> list[tuple[str, Any]]:
    """Values from outside a function that it reads but does not assign to."""
    codes = list(_codes(function.__code__))
    used = [one for code in codes for one in dis.get_instructions(code)]
    written = {one.argval for one in used if one.opname in _WRITES}
    names = {one.argval for one in used if one.opname in _READS} - written
    found = {n: function.__globals__[n] for n in names if n in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name not in written and cell != CellType():  # unless it is still unbound
            found[name] = cell.cell_contents
    return sorted(found.items(), key=lambda one: one[0])


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of functions defined in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _of_object(value: Any) -> str:
    plain = {name: value_text(one) for name, one in getattr(value, "__dict__", {}).items()}
    return f"{_name(type(value))} {sorted((n, t) for n, t in plain.items() if t is not None)}"


def _kernel(value: Any) -> Any:
    """The jitted function that an object is or wraps; None for other objects."""
    while not hasattr(value, "src") and hasattr(value, "fn") and hasattr(value, "arg_names"):
        value = value.fn
    return value if hasattr(value, "src") and hasattr(value, "fn") else None


def _is_installed(function: FunctionType) -> bool:
    """Whether it belongs to Python or an installed package, which users do not edit."""
    file = Path(function.__code__.co_filename)
    return any(file.is_relative_to(folder) for folder in _INSTALLED)


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
