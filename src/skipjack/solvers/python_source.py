"""What a Python file defines, imports and mentions, read from its syntax alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from skipjack.errors import SkipjackError

# The parts of a kernel's syntax that decide its machine code.
#
# The canonical text of a kernel, taken from a file or from a loaded function, has no docstrings and
# no decorators of tuners, and includes the text of everything that the kernel mentions.

_COMPILED = ("jit", "constexpr_function", "aggregate")
"""Decorators that affect what is compiled, unlike tuners and heuristics."""


def canonicalize(tree: ast.AST) -> None:
    """Remove docstrings, and decorators that do not change what is compiled."""
    for inner in ast.walk(tree):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if ast.get_docstring(inner, clean=False) is not None:
                inner.body = inner.body[1:] or [ast.Pass()]
            inner.decorator_list = [one for one in inner.decorator_list if _compiles(one)]


def mentioned_names(node: ast.AST) -> Iterator[str]:
    """Names and dotted names; ``a.b`` is yielded without its prefix ``a``."""
    match node:
        case ast.Attribute(value=value):
            if dotted := _dotted(node):
                yield dotted
            else:
                yield from mentioned_names(value)
        case ast.Name(id=name):
            yield name
        case _:
            for child in ast.iter_child_nodes(node):
                yield from mentioned_names(child)


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


# What a Python file defines and imports at its top, read from its syntax alone.


@dataclass(frozen=True)
class ModuleNames:
    """The names of one file."""

    path: Path
    package: tuple[str, ...]
    """Folders with an ``__init__.py`` above it, outermost first."""
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    """The dotted name behind each imported name."""
    stars: list[str] = field(default_factory=list)
    """Modules that are imported with ``*``."""

    def text(self, name: str) -> str:
        """The canonical text of a definition or of an import."""
        if name in self.definitions:
            return "\n".join(ast.unparse(node) for node in self.definitions[name])
        return f"import {self.imports[name]} as {name}"

    def used_by(self, name: str) -> list[str]:
        """Names and dotted names (``math.inf``) that a definition mentions."""
        if name not in self.definitions:
            return [f"{name}"] if name in self.imports else []
        return sorted({path for node in self.definitions[name] for path in mentioned_names(node)})

    def neighbour(self, parts: list[str]) -> Path | None:
        """The file of a module of the same package, or of the folder if there is no package."""
        folder = self.path.parent
        if self.package:
            if parts[0] != self.package[0]:
                return None
            folder = self.path.parents[len(self.package)]
        for found in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts)):
            file = found / "__init__.py" if found.is_dir() else found
            if file.is_file() and file.suffix == ".py":
                return file.resolve()
        return None


@lru_cache(maxsize=256)
def read_module(path: Path, stamp: int) -> ModuleNames:
    """The names of a file at a modification time; `SkipjackError` if it cannot be read."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise SkipjackError(f"{path} cannot be read as Python: {error}") from None
    names = ModuleNames(path, _package(path))
    for statement in _top(tree.body):
        _note(names, statement)
    return names


def _package(path: Path) -> tuple[str, ...]:
    folders: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folders.insert(0, folder.name)
        folder = folder.parent
    return tuple(folders)


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements at module level, including those under a condition."""
    for statement in body:
        match statement:
            case ast.If() | ast.Try() | ast.With():
                for part in ("body", "handlers", "orelse", "finalbody"):
                    for inner in getattr(statement, part, []):
                        nested = inner.body if isinstance(inner, ast.ExceptHandler) else [inner]
                        yield from _top(nested)
            case _:
                yield statement


def _note(names: ModuleNames, statement: ast.stmt) -> None:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            canonicalize(statement)
            names.definitions.setdefault(statement.name, []).append(statement)
        case ast.Assign(targets=targets):
            _define(names, targets, statement)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            _define(names, [target], statement)
        case ast.Import(names=aliases):
            for alias in aliases:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                names.imports[alias.asname or whole] = whole
        case ast.ImportFrom(names=aliases):
            module = absolute_module(names, statement)
            for alias in aliases:
                if alias.name == "*":
                    names.stars.append(module)
                else:
                    names.imports[alias.asname or alias.name] = f"{module}.{alias.name}"


def _define(names: ModuleNames, targets: list[ast.expr], statement: ast.stmt) -> None:
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                names.definitions.setdefault(node.id, []).append(statement)


def absolute_module(names: ModuleNames, statement: ast.ImportFrom) -> str:
    """The full name of the module that is imported from."""
    if not statement.level:
        return statement.module or ""
    kept = names.package[: len(names.package) - statement.level + 1]
    return ".".join([*kept, *([statement.module] if statement.module else [])])
