"""The identity of a build: the content of its operation and solver, and the target it is built for.

Names and versions are not enough: the operation or solver of a plug-in may be edited without a
change of either. All code that comes with Skipjack counts as one content, the text of its code
generators. For other code the content is the text of the defining file and of the files next to it
that it imports, without comments and docstrings.
"""

from __future__ import annotations

import ast
import functools
import io
import sys
import tokenize
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

from skipjack.core import Device, Problem, digest_of
from skipjack.errors import SkipjackError, foreign_code
from skipjack.native import own_build_identity, own_code, target_identity
from skipjack.operations import comes_with_skipjack, get
from skipjack.solvers.built_in import is_built_in
from skipjack.solvers.python_source import ModuleNames, absolute_module, read_module
from skipjack.solvers.solver import BuildingSolver, Solver, Source

_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_INSTALLED = frozenset(("site-packages", "dist-packages"))
"""Names of the folders that packages are installed to."""
_DEEPEST = 6
"""Levels of an object's state that are read."""


def build_identity(problem: Problem, solver: Solver, device: Device) -> str:
    """The identity that all builds of a problem by a solver for a device share, for any config.

    It depends neither on the compiler's version nor on the machine that computes it: each build
    records its compiler, and all machines of a fleet must compute the same identity.
    """
    if is_built_in(solver) and comes_with_skipjack(problem.operation):
        return own_build_identity(problem.key, solver.name, device)
    return digest_of([_content(problem, solver), *target_identity(device)])


def definition_digest(problem: Problem) -> str:
    """Digest of an operation's definition for this problem; empty if it comes with Skipjack.

    Unlike a build's identity it does not change with Skipjack's version, so that files remain
    valid after an update.
    """
    operation = get(problem.operation)
    if _is_known(type(operation).__module__, 0):
        return ""
    return digest_of([_meaning(problem), sorted(_texts_of(operation, 0))])


def source_key(solver: BuildingSolver, source: Source) -> str:
    """The key of machine code: its source, and the text of `compile` if a plug-in defines it.

    Equal sources are one build, whatever else changed in a solver. The source does not describe a
    plug-in's own way to compile, so that its text is part of the key.
    """
    compile_ = type(solver).compile
    if _is_known(compile_.__module__, 0):
        return source.digest
    return digest_of([source.digest, _texts_of(compile_, 0)])


def _content(problem: Problem, solver: Solver) -> str:
    texts = [_texts(one) for one in (get(problem.operation), solver)]
    return digest_of([own_code(), _meaning(problem), *texts])


_texts_of_ours: dict[int, tuple[object, list[str]]] = {}
"""By the id of immutable objects whose classes come with Skipjack; kept alive here."""


def _texts(one: object) -> list[str]:
    """`_texts_of` an operation or a solver, sorted; it is needed for every build."""
    if not _is_known(type(one).__module__, 0):
        return sorted(_texts_of(one, 0))
    if id(one) not in _texts_of_ours:
        _texts_of_ours[id(one)] = one, sorted(_texts_of(one, 0))
    return _texts_of_ours[id(one)][1]


def _meaning(problem: Problem) -> list[str]:
    """The nest or the programs of a problem, as text."""
    operation = get(problem.operation)
    with foreign_code(f"operation {operation.name} asked to describe {problem.key}"):
        return [
            repr(getattr(operation, name)(problem))
            for name in ("nest", "programs")
            if hasattr(operation, name)
        ]


def _texts_of(thing: object, depth: int) -> list[str]:
    """The parts of an object's code and state that do not come with Skipjack."""
    return list(dict.fromkeys(_parts(thing, depth)))


def _parts(thing: Any, depth: int) -> Iterator[str]:
    if isinstance(thing, _PLAIN):
        yield repr(thing)
    elif isinstance(thing, FunctionType | MethodType):
        function = thing.__func__ if isinstance(thing, MethodType) else thing
        yield function.__qualname__
        if not _is_known(function.__module__, depth):
            yield _text_of_module(function.__module__) or _code(function.__code__)
    elif depth >= _DEEPEST:
        yield type(thing).__qualname__
    elif isinstance(thing, tuple):
        for item in thing:
            yield from _parts(item, depth + 1)
    elif depth == 0 or is_dataclass(thing):
        kind = type(thing)
        yield kind.__qualname__
        if not _is_known(kind.__module__, depth):
            yield _text_of_module(kind.__module__) or _members(kind)
        for name in _state(thing):
            value = getattr(thing, name, None)
            yield from (f"{name} = {part}" for part in _parts(value, depth + 1))
    else:
        # A mutable object is taken for a cache, which does not define what the object is.
        yield f"{type(thing).__qualname__} {getattr(thing, '__name__', '')}"


def _state(thing: object) -> list[str]:
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names = {*getattr(thing, "__dict__", ()), *slots} - {"__dict__", "__weakref__"}
    return sorted(n for n in names if not isinstance(_declared(thing, n), cached_property))


def _declared(thing: object, name: str) -> object:
    return next((vars(kind)[name] for kind in type(thing).__mro__ if name in vars(kind)), None)


def _is_known(module: str, depth: int) -> bool:
    """Whether a module comes with Skipjack or Python, or belongs to an installed library."""
    top = module.partition(".")[0]
    if top == "skipjack" or (top in sys.stdlib_module_names and top != "__main__"):
        return True
    return depth > 0 and not _INSTALLED.isdisjoint(_file(module).parts)


# Text without a file


def _members(kind: type) -> str:
    """The members of a class that has no file."""
    functions = sorted((n, m) for n, m in vars(kind).items() if isinstance(m, FunctionType))
    plain = sorted((n, repr(m)) for n, m in vars(kind).items() if isinstance(m, _PLAIN))
    return repr([*((name, _code(member.__code__)) for name, member in functions), *plain])


def _code(code: CodeType) -> str:
    constants = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return repr((code.co_code.hex(), constants, code.co_names))


# Text of files


def _text_of_module(name: str) -> str:
    """Digest of a module's file and of the neighbouring files it imports; empty without a file."""
    root = _file(name).resolve()
    if root.suffix != ".py" or not root.is_file():
        return ""
    texts = {path: _canonical(path, _stamp(path)) for path in _files(root)}
    # By content alone: a plug-in has another path on another machine.
    return digest_of([texts.pop(root), *sorted((path.name, text) for path, text in texts.items())])


def _file(module: str) -> Path:
    return Path(getattr(sys.modules.get(module), "__file__", None) or "")


def _files(root: Path) -> list[Path]:
    found, queue = {root: None}, deque([root])
    while queue:
        for path in _imports(queue.popleft()):
            if path not in found:
                found[path] = None
                queue.append(path)
    return list(found)


def _imports(path: Path) -> Iterator[Path]:
    """Files of the same folder or package that a file imports, at any level."""
    try:
        names = read_module(path, _stamp(path))
        tree = ast.parse(path.read_bytes())
    except (SkipjackError, OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = absolute_module(names, node)
            targets = [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
        else:
            continue
        yield from filter(None, (_neighbour(names, target) for target in targets))


def _neighbour(names: ModuleNames, target: str) -> Path | None:
    """The file of ``a.b.c``, which may be a module or a name in a module."""
    parts = target.split(".")
    if names.path.parent.name in _INSTALLED and not _come_together(names.path.stem, parts[0]):
        return None  # in this folder all installed packages are neighbours
    found = (names.neighbour(parts[:length]) for length in range(len(parts), 0, -1))
    return next(filter(None, found), None)


def _come_together(module: str, other: str) -> bool:
    """Whether one distribution installed both modules."""
    by_module = _distributions()
    return not set(by_module.get(module, ())).isdisjoint(by_module.get(other, ()))


@functools.cache
def _distributions() -> Mapping[str, Sequence[str]]:
    from importlib.metadata import packages_distributions

    return packages_distributions()


@functools.lru_cache(maxsize=256)
def _canonical(path: Path, stamp: int) -> str:
    """The text of a file at a modification time, without comments, docstrings and blank lines.

    They are cut out of the text, because the syntax tree differs between versions of Python.
    """
    try:
        text = path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
    lines = text.split("\n")
    try:
        for first, last in _docstrings(ast.parse(text)):
            lines[first - 1 : last] = [""] * (last - first + 1)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                lines[row - 1] = lines[row - 1][:column]
    except (SyntaxError, ValueError, tokenize.TokenError, IndexError):
        return text
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """First and last lines of the docstrings that share no line with other code."""
    for node in ast.walk(tree):
        documented = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            alone = isinstance(node, ast.Module) or text.lineno > node.lineno
            followed = len(node.body) > 1 and node.body[1].lineno == text.end_lineno
            if alone and not followed:
                yield text.lineno, text.end_lineno or text.lineno


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1
