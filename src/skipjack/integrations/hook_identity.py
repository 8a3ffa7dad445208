"""What a hook does, as text: another one for an edited hook, the same one in every process.

It is made of the compiled code of the function, of the values that it closes over or reads from its
module, of the functions of the user's that it calls, and of the plain attributes of an object that
is called. Names that a hook assigns to, and lists and the like, are its state and no part of it: a
hook that counts is still the same hook.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from skipjack.integrations.kernel_identity import digest, function_text, is_tritons, value_text

_READS, _WRITES = ("LOAD_GLOBAL", "LOAD_NAME"), ("STORE_GLOBAL", "STORE_DEREF")
_INSTALLED = tuple(
    Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def hook_text(hook: Callable[..., object]) -> str:
    """A function's name and a digest of what it does."""
    name = getattr(hook, "__qualname__", type(hook).__qualname__)
    body = _of_function(hook, set()) if isinstance(hook, FunctionType) else _of(hook, set())
    return f"{name}:{hashlib.sha256(body.encode()).hexdigest()[:12]}"


def _of(value: Any, seen: set[int]) -> str:
    """Of whatever a hook reads; of objects that have no text of their own, the type."""
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
    # In order of names: what is met twice is written out the first time alone.
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
    """Values from outside of a function that it reads and does not assign to."""
    codes = list(_codes(function.__code__))
    used = [one for code in codes for one in dis.get_instructions(code)]
    written = {one.argval for one in used if one.opname in _WRITES}
    names = {one.argval for one in used if one.opname in _READS} - written
    found = {n: function.__globals__[n] for n in names if n in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name not in written and cell != CellType():  # a name without a value yet
            found[name] = cell.cell_contents
    return sorted(found.items(), key=lambda one: one[0])


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Of a function and of those that are defined in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _of_object(value: Any) -> str:
    plain = {name: value_text(one) for name, one in getattr(value, "__dict__", {}).items()}
    return f"{_name(type(value))} {sorted((n, t) for n, t in plain.items() if t is not None)}"


def _kernel(value: Any) -> Any:
    """The jitted function that an object is or wraps; None if it is something else."""
    while not hasattr(value, "src") and hasattr(value, "fn") and hasattr(value, "arg_names"):
        value = value.fn
    return value if hasattr(value, "src") and hasattr(value, "fn") else None


def _is_installed(function: FunctionType) -> bool:
    """Whether it belongs to Python or to a package, which users do not edit."""
    file = Path(function.__code__.co_filename)
    return any(file.is_relative_to(folder) for folder in _INSTALLED)


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
