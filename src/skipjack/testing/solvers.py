"""Conformance kits for solvers. In a test file of yours::

from skipjack.testing.solvers import SolverConformance

class TestMySolver(SolverConformance):
    problems = ("matmul:5x7x3:f32", "matmul:16x16x16:f64")
    refused = ("add:64:f32",)

    def create(self):
        return MySolver()

`SolverConformance` compiles and runs kernels, and needs the device. `SolverDeclarations` checks
everything else, for solvers of devices that are not available.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skipjack.bank import BankEntry
from skipjack.core import (
    DTYPES,
    Config,
    Countable,
    Device,
    Problem,
    Promising,
    Space,
    TimingProtocol,
)
from skipjack.errors import SkipjackError
from skipjack.execute import Checker, Loadable, RunSession
from skipjack.interop.miopen import FAMILIES
from skipjack.native import cpu
from skipjack.operations import get, names, parse
from skipjack.solvers import BuildingSolver, Solver, VendorSolver, tolerance_factor_of

_KINDS = ("cpu", "cuda", "hip")
_QUICK = TimingProtocol(sample_ns=2_000, samples_per_block=2)


class SolverDeclarations:
    """The contract of solvers, as far as it needs no compiling and running.

    Subclass it, supply `problems` and `create`, and let pytest collect it.
    """

    problems: Sequence[str] = ()
    """Keys of small problems that the solver must support, preferably of several shapes."""
    refused: Sequence[str] = ()
    """Keys of problems that the solver must refuse."""
    drawn = 3
    """Number of random configs for each problem, in addition to the default."""

    def create(self) -> Solver:
        """A new solver of the kind under test."""
        raise NotImplementedError("supply create(self) in your subclass")

    def device(self) -> Device:
        """The device of the problems; override it for GPUs."""
        return cpu.detect()

    def test_its_declarations_are_valid(self) -> None:
        solver = self.create()
        assert solver.name, "name is empty"
        assert isinstance(solver.version, int), f"version is {solver.version!r}: not an int"
        for what, found, known in (
            ("kinds", solver.kinds, _KINDS),
            ("dtypes", solver.dtypes, tuple(DTYPES)),
        ):
            assert found and not isinstance(found, str), f"{what} is {found!r}: write a tuple"
            wrong = [one for one in found if one not in known]
            assert not wrong, f"{what} has {wrong[0]!r}, which is not among {', '.join(known)}"
        assert solver.algorithm in FAMILIES, (
            f"algorithm is {solver.algorithm!r}, which is not among {', '.join(FAMILIES)}"
        )
        for what in ("compared", "preferred"):
            value = getattr(solver, what)
            assert isinstance(value, bool), f"{what} is {value!r}: not a bool"
        assert self.device().kind in solver.kinds, (
            "the kind of the kit's device is not among the declared kinds"
        )

    def test_accepts_the_problems_that_it_is_for(self) -> None:
        solver, device = self.create(), self.device()
        for problem in self._problems():
            assert problem.dtype in solver.dtypes, (
                f"the dtype of {problem.key} is not among the declared dtypes"
            )
            reason = solver.refuses(problem, device)
            assert reason == "", f"refuses {problem.key}: {reason}"

    def test_refuses_other_problems_with_a_reason(self) -> None:
        solver, device = self.create(), self.device()
        for key in self.refused:
            problem = parse(key)
            reason = _refusal(solver, problem, device)
            assert reason, f"does not refuse {key}"

    def test_answers_about_every_operation(self) -> None:
        """`refuses` returns a str for any problem, and problems that it accepts have a space."""
        solver, device = self.create(), self.device()
        for name in names():
            problem = parse(get(name).example)
            if problem.dtype in solver.dtypes and not _refusal(solver, problem, device):
                _default(solver.space(problem, device), problem)

    def test_its_spaces_have_configs(self) -> None:
        for problem in self._problems():
            space = self._space(problem)
            for config in self._configs(space, problem):
                assert space.contains(config), (
                    f"{problem.key}: {config} is not in the space that returned it"
                )
            if isinstance(space, Countable):
                assert space.count() > 0, f"{problem.key}: the space counts no configs"

    def test_its_spaces_are_the_same_each_time(self) -> None:
        for problem in self._problems():
            first, second = self._space(problem), self._space(problem)
            configs, again = (self._configs(space, problem) for space in (first, second))
            assert configs == again, (
                f"{problem.key}: two spaces with one seed returned different configs"
            )
            keys = [[space.key(one) for one in configs] for space in (first, second)]
            assert keys[0] == keys[1], (
                f"{problem.key}: two spaces have different keys for one config"
            )

    def test_configs_come_back_from_the_bank(self) -> None:
        solver, device = self.create(), self.device()
        for problem in self._problems():
            space = self._space(problem)
            for config in self._configs(space, problem):
                entry = _entry(solver, problem, device, config)
                back = Config(BankEntry.from_line(entry.line).config)
                assert back == config, f"{problem.key}: {config} becomes {back} in the bank"
                assert space.contains(back), f"{problem.key}: {back} is no longer in the space"
                assert space.key(back) == space.key(config), f"{problem.key}: its key has changed"

    def test_one_config_gives_one_source(self) -> None:
        first, second, device = self.create(), self.create(), self.device()
        if not isinstance(first, BuildingSolver) or not isinstance(second, BuildingSolver):
            return
        for problem in self._problems():
            for config in self._configs(self._space(problem), problem):
                sources = [one.lower(problem, device, config) for one in (first, second)]
                where = f"{problem.key}: {config}"
                assert sources[0].text, f"{where} has no source"
                assert sources[0].digest == sources[1].digest, f"{where} has two sources"
                assert sources[0].compiler == first.compiler(), f"{where} names another compiler"
                slots = [list(one.slots(problem, device, config)) for one in (first, second)]
                assert slots[0] == slots[1], f"{where} has two lists of slots"

    def _problems(self) -> list[Problem]:
        assert self.problems, "supply problems in your subclass"
        return [parse(key) for key in self.problems]

    def _space(self, problem: Problem) -> Space:
        return self.create().space(problem, self.device())

    def _configs(self, space: Space, problem: Problem) -> list[Config]:
        rng = np.random.default_rng(7)
        configs = [_default(space, problem)]
        configs += [space.sample(rng) for _ in range(self.drawn)]
        if isinstance(space, Promising):
            configs += space.promising(1)
        return list(dict.fromkeys(configs))


class SolverConformance(SolverDeclarations):
    """The contract of solvers. Kernels are compiled here and run in a separate process.

    Libraries are called in the process of the tests.
    """

    def test_one_source_gives_one_build(self) -> None:
        solver, device = self.create(), self.device()
        if not isinstance(solver, BuildingSolver):
            return
        problem = self._problems()[0]
        source = solver.lower(problem, device, self._space(problem).default())
        first, second = solver.compile(source), solver.compile(source)
        assert first.data, f"{problem.key}: the build is empty"
        assert first.digest == second.digest, f"{problem.key}: two builds of one source differ"

    def test_its_results_are_right(self) -> None:
        solver = self.create()
        if isinstance(solver, VendorSolver):
            for problem in self._problems():
                self._call(solver, problem)
            return
        assert isinstance(solver, BuildingSolver), "it neither builds nor calls a library"
        with RunSession(_QUICK, ()) as session:
            for problem in self._problems():
                self._run(session, solver, problem)

    def _call(self, solver: VendorSolver, problem: Problem) -> None:
        checker = Checker(problem)
        checker.prepare()
        solver.bind(problem, checker.arrays)()
        verdict = checker.verdict(tolerance_factor_of(solver, problem))
        assert verdict.right, f"{problem.key}: {verdict.reason}"

    def _run(self, session: RunSession, solver: BuildingSolver, problem: Problem) -> None:
        device = self.device()
        session.prepare(problem)
        for config in self._configs(self._space(problem), problem):
            blob = solver.compile(solver.lower(problem, device, config))
            slots = tuple(solver.slots(problem, device, config))
            tolerance_factor = tolerance_factor_of(solver, problem)
            loadable = Loadable(
                blob.data,
                blob.digest,
                blob.symbol,
                blob.abi,
                slots=slots,
                tolerance_factor=tolerance_factor,
            )
            failure, _ = session.verify(session.add(loadable))
            assert failure is None, f"{problem.key}: {config}: {failure and failure.reason}"


def _refusal(solver: Solver, problem: Problem, device: Device) -> str:
    if problem.dtype not in solver.dtypes:
        return f"{problem.dtype} is not among its dtypes"
    reason = solver.refuses(problem, device)
    assert isinstance(reason, str), f"{problem.key}: refuses returned {reason!r}: not a str"
    return reason


def _default(space: Space, problem: Problem) -> Config:
    try:
        return space.default()
    except SkipjackError as error:
        raise AssertionError(f"{problem.key}: the space has no default config: {error}") from error


def _entry(solver: Solver, problem: Problem, device: Device, config: Config) -> BankEntry:
    return BankEntry(
        problem=problem.key,
        device=device.class_key,
        device_name=device.name,
        solver=solver.name,
        solver_version=solver.version,
        config=config,
        vendor="",
        speedup={},
        time_ns=1.0,
        default_ns=1.0,
        vendor_ns=None,
    )
