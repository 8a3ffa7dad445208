"""The identity of builds: an edited operation or solver is another one, a comment is none."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from skipjack import operations, plugins
from skipjack.core import Config, Device
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.solvers import (
    BuildingSolver,
    Source,
    build_identity,
    find_solver,
    identity,
    registry,
    source_key,
)

DEVICE = Device("cpu", "haswell", 1, features=("avx2", "fma"), vector_bytes=32)

OPERATION = '''
"""A docstring."""
import helper
from skipjack import operations
from skipjack.operations import ELEMENTWISE

_like = next(one for one in ELEMENTWISE if one.name == "square")


class Edited:
    name = "edited"
    example = "edited:8"
    factor = 2.0  # FACTOR

    def __getattr__(self, asked):
        return getattr(_like, asked)

    def nest(self, problem):
        return _like.nest(problem)

    def reference(self, problem, arrays):
        """What it must be."""
        return self.factor * helper.scaled(arrays["x"])


operations.register(Edited())
'''
SOLVER = """
from skipjack import solvers
from skipjack.solvers import Blob, Source


class Own:
    name, version = "own", 1

    def refuses(self, problem, device):
        return ""

    def space(self, problem, device):
        raise NotImplementedError

    def compiler(self):
        return "cc 1"

    def lower(self, problem, device, config):
        return Source("text", "target", self.compiler())

    def compile(self, source):
        return Blob(b"-O2")

    def slots(self, problem, device, config):
        return ()


solvers.register(Own())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where plug-ins lie; what they register is forgotten."""
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setenv(plugins.VARIABLE, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(operations.registry, "_known", {**operations.registry._known})
    monkeypatch.setattr(registry, "_known", {**registry._known})
    (tmp_path / "helper.py").write_text("def scaled(x):\n    return 3.0 * x\n")
    yield tmp_path
    sys.modules.pop("helper", None)


def load(folder: Path, name: str, text: str) -> None:
    """Load a plug-in anew, as the next process would."""
    plugins._loaded.clear()
    operations.registry._known.pop("edited", None)
    registry._known.pop("own", None)
    (folder / f"{name}.py").write_text(text)
    plugins.load((str(folder / f"{name}.py"),))


def of_operation(folder: Path, text: str) -> str:
    load(folder, "edited", text)
    return build_identity(parse("edited:8"), find_solver("nest"), DEVICE)


def test_an_edited_operation_is_another_one(folder: Path) -> None:
    first = of_operation(folder, OPERATION)
    assert of_operation(folder, OPERATION) == first
    assert of_operation(folder, OPERATION.replace("factor = 2.0", "factor = 4.0")) != first
    assert of_operation(folder, OPERATION.replace('"square"', '"abs"')) != first


def test_comments_and_docstrings_change_nothing(folder: Path) -> None:
    first = of_operation(folder, OPERATION)
    other = OPERATION.replace("# FACTOR", "# a word").replace("What it must be.", "Says it.")
    assert of_operation(folder, other.replace("A docstring.", "Another.")) == first


def test_what_lies_beside_a_plug_in_belongs_to_it(folder: Path) -> None:
    first = of_operation(folder, OPERATION)
    (folder / "helper.py").write_text("def scaled(x):\n    return 30.0 * x\n")
    assert of_operation(folder, OPERATION) != first


def test_what_is_installed_beside_an_installed_plug_in_belongs_to_it_if_it_came_with_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = folder / "site-packages"
    installed.mkdir()
    (folder / "helper.py").rename(installed / "helper.py")
    came = {"edited": ["tiny"], "helper": ["a library"]}
    monkeypatch.setattr(identity, "_distributions", lambda: came)
    first = of_operation(installed, OPERATION)
    (installed / "helper.py").write_text("def scaled(x):\n    return 30.0 * x\n")
    assert of_operation(installed, OPERATION) == first, "a library is merely used"
    came["helper"].append("tiny")
    assert of_operation(installed, OPERATION) != first


def test_where_a_plug_in_lies_does_not_matter(folder: Path) -> None:
    first = of_operation(folder, OPERATION)
    (folder / "moved").mkdir()
    (folder / "helper.py").rename(folder / "moved" / "helper.py")
    assert of_operation(folder / "moved", OPERATION) == first


def test_an_edited_solver_is_another_one_without_a_new_version(folder: Path) -> None:
    load(folder, "own", SOLVER)
    problem = parse("add:8")
    first = build_identity(problem, find_solver("own"), DEVICE)
    load(folder, "own", SOLVER.replace('"text"', '"mended"'))
    assert build_identity(problem, find_solver("own"), DEVICE) != first


def test_code_of_an_own_way_to_compile_is_known_by_that_too(folder: Path) -> None:
    source = Source("text", "target", "cc 1")
    load(folder, "own", SOLVER)
    first = _key(source)
    load(folder, "own", SOLVER.replace("-O2", "-O3"))
    assert _key(source) != first
    nest = find_solver("nest")
    assert isinstance(nest, BuildingSolver)
    assert source_key(nest, source) == source.digest


def _key(source: Source) -> str:
    solver = find_solver("own")
    assert isinstance(solver, BuildingSolver)
    assert solver.lower(parse("add:8"), DEVICE, Config()) == source
    return source_key(solver, source)


def test_a_class_that_was_typed_in_is_known_by_its_code() -> None:
    def typed(number: int) -> object:
        space: dict[str, object] = {"__name__": "typed_in"}
        exec(
            "class Typed:\n name, version = 'typed', 1\n"
            f" def lower(self, problem, device, config):\n  return {number}\n",
            space,
        )
        return space["Typed"]()  # type: ignore[operator]

    problem = parse("add:8")
    one, same, other = (
        build_identity(problem, typed(n), DEVICE)  # type: ignore[arg-type]
        for n in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_what_is_built_for_belongs_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, solver = parse("add:8"), find_solver("nest")
    first = build_identity(problem, solver, DEVICE)
    assert build_identity(problem, solver, replace(DEVICE, units=2)) != first
    assert build_identity(problem, solver, replace(DEVICE, serial="another")) == first
    monkeypatch.setattr(cpu, "target_of", lambda _: "the same with other flags")
    assert build_identity(problem, solver, DEVICE) != first


def test_what_a_solver_remembers_does_not_count() -> None:
    class Remembering:
        name, version = "remembering", 1

        def __init__(self) -> None:
            self.cache: dict[str, int] = {}

    problem, solver = parse("add:8"), Remembering()
    first = build_identity(problem, solver, DEVICE)  # type: ignore[arg-type]
    solver.cache["seen"] = 1
    assert build_identity(problem, solver, DEVICE) == first  # type: ignore[arg-type]
