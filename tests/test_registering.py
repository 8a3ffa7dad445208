"""Plug-ins are complete when they register, and errors that they raise later name them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from skipjack import operations, search, solvers
from skipjack.core import (
    Array,
    Arrays,
    Config,
    NestOperation,
    OperationClass,
    Problem,
    Tensor,
    Tolerance,
    Trial,
)
from skipjack.errors import ForeignError, ProblemError, UsageError
from skipjack.native import cpu
from skipjack.search import SearchContext
from skipjack.search import registry as search_registry
from skipjack.solvers import registry
from skipjack.solvers.cpu.nest_code.solver import NestSolver
from skipjack.testing.spaces import tiny_space


class Bare:
    """An operation that is computed by NumPy alone."""

    name = "bare"
    operation_class: OperationClass = "vector"
    example = "bare:8"
    dtypes = ("f32",)
    domain = (0.0, 1.0)

    def check(
        self, shape: tuple[int, ...], attributes: Mapping[str, str], where: str
    ) -> tuple[tuple[str, str], ...]:
        if "r" in attributes:
            return (("r", str(int(attributes["r"]))),)
        if "refused" in attributes:
            raise ProblemError(f"{where} is refused")
        return None if "none" in attributes else ()  # type: ignore[return-value]

    def inputs(self, problem: Problem) -> tuple[Tensor, ...]:
        return (Tensor("x", problem.shape),)

    def output(self, problem: Problem) -> Tensor:
        return Tensor("out", problem.shape)

    def flops(self, problem: Problem) -> int:
        return 1

    def reference(self, problem: Problem, arrays: Arrays) -> Array:
        return arrays["x"]

    magnitude = reference

    def tolerance(self, problem: Problem) -> Tolerance:
        return Tolerance(1.0)


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (operations.registry, registry):
        monkeypatch.setattr(module, "_known", dict(module._known))
    monkeypatch.setattr(search_registry, "_FACTORIES", dict(search_registry._FACTORIES))
    yield


MEMBERS = (
    *("name", "operation_class", "example", "dtypes", "domain"),
    *("check", "inputs", "output", "flops", "reference", "magnitude", "tolerance"),
)


@pytest.mark.parametrize("missing", MEMBERS)
def test_an_operation_that_lacks_a_member_is_refused(missing: str) -> None:
    kept = {name: getattr(Bare, name) for name in MEMBERS if name != missing}
    partly = type("Partly", (), {**kept, "__module__": __name__})()
    with pytest.raises(
        UsageError, match=rf"operation .* in test_registering\.py has no {missing}: "
    ):
        operations.register(partly)


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"flops": lambda self: 1}, r"flops takes \(\); write def flops\(self, problem\)"),
        ({"flops": 8}, "flops is not a method"),
        ({"operation_class": "round"}, "operation_class is 'round'; write cube or vector"),
        ({"dtypes": ("f31",)}, "dtypes are .*f31.*; choose from f32"),
        ({"dtypes": ()}, "dtypes are .*; choose from f32"),
        ({"domain": (1.0, 0.0)}, "domain is .*; give finite bounds, the lower one first"),
        ({"name": "No Name"}, "'No Name' is not a valid name for an operation"),
    ],
)
def test_a_member_of_another_kind_is_refused(members: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        operations.register(type("Odd", (Bare,), members)())


def test_members_that_cannot_be_read_are_blamed() -> None:
    with pytest.raises(ForeignError, match=r"operation 'bare' in .* raised TypeError"):
        operations.register(type("Odd", (Bare,), {"domain": 5})())
    broken = property(lambda self: 1 // 0)
    with pytest.raises(ForeignError, match=r"dtypes of operation 'bare' .* raised ZeroDivision"):
        operations.register(type("Odd", (Bare,), {"dtypes": broken})())


def test_a_class_is_not_taken_for_an_operation() -> None:
    with pytest.raises(
        UsageError, match=r"Bare is a class; register an instance: register\(Bare\(\)\)"
    ):
        operations.register(Bare)  # type: ignore[arg-type]


def test_what_check_raises_or_gives_is_said_to_be_its_own() -> None:
    operations.register(Bare())
    this = r"check of operation 'bare' in test_registering\.py"
    with pytest.raises(ForeignError, match=rf"{this} for bare:4/r=foo raised ValueError: .* 'foo'"):
        operations.parse("bare:4/r=foo")
    no_tuple = rf"{this} returned None for bare:4/none=1; .* be tuple\["
    with pytest.raises(ForeignError, match=no_tuple):
        operations.parse("bare:4/none=1")
    with pytest.raises(ProblemError, match=r"^bare:4/refused=1 is refused$"):
        operations.parse("bare:4/refused=1")


def broken(base: type, method: str, given: object) -> object:
    """An instance whose method gives that, or raises it."""

    def instead(self: object, *arguments: object) -> object:
        if isinstance(given, Exception):
            raise given
        return given

    return type("Odd", (base,), {"name": "odd", "__module__": __name__, method: instead})()


NONSENSE = [
    *("inputs", "output", "flops", "tolerance", "nest", "programs", "numpy_call"),
    *("can_project", "check_elements"),
]


@pytest.mark.parametrize("method", NONSENSE)
@pytest.mark.parametrize("given", [KeyError("boo"), None], ids=["raises", "gives None"])
def test_a_method_of_an_operation_names_itself_and_the_problem(method: str, given: object) -> None:
    operations.register(broken(Bare, method, given))  # type: ignore[arg-type]
    problem = Problem("odd", (4,), "f32")
    this = rf"^{method} of operation 'odd' in test_registering\.py "
    raised, returned = (
        r"for odd:4:f32 raised KeyError: 'boo'$",
        r"returned None for odd:4:f32; its .*",
    )
    said = raised if given else returned
    arguments = (problem, {}) if method == "numpy_call" else (problem,)
    with pytest.raises(ForeignError, match=this + said):
        getattr(operations.get("odd"), method)(*arguments)


@pytest.mark.parametrize("method", ["reference", "magnitude"])
@pytest.mark.parametrize("given", [KeyError("boo"), None, np.zeros(3)], ids=repr)
def test_references_of_another_shape_name_their_method(method: str, given: object) -> None:
    operations.register(broken(Bare, method, given))  # type: ignore[arg-type]
    arrays = {"x": np.zeros(4)}
    asked = operations.references if method == "reference" else operations.magnitudes
    with pytest.raises(ForeignError, match=rf"^{method} of operation 'odd' in .* odd:4:f32"):
        asked(operations.parse("odd:4"), arrays)


def test_a_tolerance_that_is_no_number_names_its_operation() -> None:
    def tolerance(self: object, problem: Problem) -> Tolerance:
        return Tolerance(float("nan"))

    operations.register(type("Odd", (Bare,), {"tolerance": tolerance})())
    with pytest.raises(
        ForeignError, match=r"^tolerance of operation 'bare' .* for bare:4:f32 .*nan"
    ):
        operations.get("bare").tolerance(operations.parse("bare:4"))


def test_an_operation_without_code_is_told_what_to_write() -> None:
    operations.register(Bare())
    said = r"operation 'bare' in test_registering\.py has neither nest nor programs, .*write one"
    with pytest.raises(UsageError, match=said):
        solvers.solver_for(operations.parse("bare:4"), cpu.detect())


METHODS = ("compiler", "lower", "compile", "slots", "refuses", "space")


@pytest.mark.parametrize("missing", METHODS)
def test_a_solver_that_lacks_a_method_is_refused(missing: str) -> None:
    kept = {name: getattr(NestSolver, name) for name in METHODS if name != missing}
    partly = type("Partly", (), {"name": "partly", "version": 1, **kept})()
    with pytest.raises(
        UsageError, match=rf"solver 'partly'.* has no {missing}: write def {missing}"
    ):
        solvers.register(partly)


@pytest.mark.parametrize("method", ["compiler", "space", "lower", "compile", "slots"])
@pytest.mark.parametrize("given", [KeyError("boo"), None], ids=["raises", "gives None"])
def test_a_method_of_a_solver_names_itself(method: str, given: object) -> None:
    solvers.register(broken(NestSolver, method, given))  # type: ignore[arg-type]
    solver, problem = solvers.find_solver("odd"), operations.parse("add:4")
    arguments = {"compiler": (), "compile": (None,), "space": (problem, cpu.detect())}
    said = "raised KeyError: 'boo'" if given else "returned None"
    about = "" if method.startswith("comp") else ".* for add:4:f32"
    with pytest.raises(ForeignError, match=rf"^{method} of solver 'odd' in .*{said}") as raised:
        getattr(solver, method)(*arguments.get(method, (problem, cpu.detect(), Config())))
    assert re.search(about, str(raised.value))


def test_a_promise_that_is_no_number_is_none(caplog: pytest.LogCaptureFixture) -> None:
    solvers.register(broken(NestSolver, "promise", float("nan")))  # type: ignore[arg-type]
    raced = solvers.solvers_for(operations.parse("add:4"), cpu.detect())
    assert "odd" not in [solver.name for solver in raced]
    reason = "promise of solver 'odd' in test_registering.py returned nan for add:4:f32"
    assert reason in caplog.text


@pytest.mark.parametrize("given", [KeyError("boo"), None], ids=["raises", "gives None"])
def test_a_solver_whose_refusal_fails_is_left_out_and_named(given: object) -> None:
    solvers.register(broken(NestSolver, "refuses", given))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"cannot do add:4:f32: refuses of solver 'odd' in"):
        solvers.solver_for(operations.parse("add:4"), cpu.detect(), "odd")


@dataclass(frozen=True, slots=True)
class Sized(Bare):
    """An operation that cannot be written to."""

    size: int = 3


def test_registering_keeps_an_object_what_it_is() -> None:
    sized = Sized()
    operations.register(sized)
    assert operations.get("bare") is sized
    assert isinstance(sized, Sized)
    assert not isinstance(sized, NestOperation)
    assert (type(sized).__module__, repr(sized), sized.size) == (__name__, "Sized(size=3)", 3)


def test_a_solver_that_does_nothing_is_refused() -> None:
    kept = {name: getattr(NestSolver, name) for name in ("refuses", "space")}
    with pytest.raises(UsageError, match=r"solver 'idle'.* has neither the methods that build"):
        solvers.register(type("Idle", (), {"name": "idle", "version": 1, **kept})())


class Deaf:
    """A searcher that cannot be told anything."""

    done = False

    def ask(self, n: int) -> list[object]:
        return []


class Odd(Deaf):
    """One that wants to be told something else."""

    def tell(self, trial: Trial, more: object) -> None: ...


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Deaf, r"searcher 'Deaf' in .* has no tell: write def tell\(self, trial\)"),
        (Odd, r"searcher 'Odd' in .*: tell takes \(trial.*, more.*\); write def tell"),
    ],
)
def test_a_searcher_that_lacks_a_method_is_refused(
    kind: Callable[[], object], sentence: str
) -> None:
    search.register("odd", lambda context: kind())  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match=sentence):
        search.create("odd", SearchContext(tiny_space()))
