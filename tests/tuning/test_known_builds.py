"""Builds and trials of earlier runs are used again if their content is the same."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skipjack.core import Candidate, Device, Status, Study
from skipjack.errors import UsageError
from skipjack.execute.pool import Build
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.search import Batches, SearchContext, registry
from skipjack.settings import Settings
from skipjack.solvers import BuildingSolver, find_solver
from skipjack.storage import ArtifactStore
from skipjack.testing.fake_tuning import FakeContext
from skipjack.tuning.study import BuildQueue, DeviceContext, TuneOptions, build_queue, solver_search

DEVICE = Device("cpu", "haswell", 1, features=("avx2", "fma"), vector_bytes=32)
PROBLEM = parse("add:64")


@dataclass
class Pool:
    """Builds nothing, and remembers what it was asked for."""

    asked: list[Candidate] = field(default_factory=list)
    pending = 0
    size = 1

    def warm_up(self) -> None: ...

    def submit(self, candidate: Candidate) -> None:
        self.asked.append(candidate)

    def poll(self, timeout_s: float) -> list[Build]:
        return []

    def withdraw(self) -> list[Candidate]:
        return []

    def cancel(self) -> None: ...


@dataclass
class Shop:
    pool: Pool
    artifacts: ArtifactStore
    ledger: Ledger
    target: Device = DEVICE


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Shop]:
    with Ledger.in_memory() as ledger:
        yield Shop(Pool(), ArtifactStore(tmp_path), ledger)


def nest() -> BuildingSolver:
    solver = find_solver("nest")
    assert isinstance(solver, BuildingSolver)
    return solver


def queue_of(context: Shop) -> BuildQueue:
    queue = BuildQueue(context)
    queue.add_solver(nest(), nest().space(PROBLEM, DEVICE))
    return queue


def ordered(context: Shop, candidate: Candidate) -> list[Build]:
    queue = queue_of(context)
    queue.submit(candidate)
    return queue.collect(0.0, 1)


@pytest.fixture
def candidate(context: Shop) -> Candidate:
    """One that was built before."""
    made = Candidate(PROBLEM, "nest", nest().space(PROBLEM, DEVICE).default())
    compiler = nest().compiler()
    build = Build(made, Status.OK, source_digest="s", artifact=b"machine code", compiler=compiler)
    queue_of(context).keep(build, context.ledger.add_build)
    return made


def test_a_build_of_before_is_used_again(context: Shop, candidate: Candidate) -> None:
    (build,) = ordered(context, candidate)
    assert build.artifact == b"machine code"
    assert not context.pool.asked


def test_a_build_of_another_content_is_not(
    context: Shop, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_queue, "build_identity", lambda *_: "of an edited operation")
    assert not ordered(context, candidate)
    assert context.pool.asked == [candidate]


def test_a_build_of_another_compiler_is_not(
    context: Shop, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(nest()), "compiler", lambda _: "llvm of tomorrow")
    assert not ordered(context, candidate)
    assert context.pool.asked == [candidate]


def test_a_study_of_another_content_or_compiler_is_another_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def study_id() -> str:
        context = DeviceContext(Settings(tmp_path), DEVICE)
        return solver_search.make_search(
            context, PROBLEM, nest(), TuneOptions(), leads=True
        ).study.id

    first = study_id()
    assert study_id() == first
    with monkeypatch.context() as patch:
        patch.setattr(solver_search, "build_identity", lambda *_: "of an edited solver")
        assert study_id() != first
    monkeypatch.setattr(type(nest()), "compiler", lambda _: "llvm of tomorrow")
    assert study_id() != first


def test_a_study_is_told_by_its_searchers_parameters_but_not_by_their_defaults(
    tmp_path: Path,
) -> None:
    def study(searcher: str) -> Study:
        options = TuneOptions(searcher=searcher)
        context = DeviceContext(Settings(tmp_path), DEVICE)
        return solver_search.make_search(context, PROBLEM, nest(), options, leads=True).study

    plain = study("genetic")
    assert plain.searcher == "genetic"
    assert study("genetic:population=12").id == plain.id
    wide = study("genetic:tournament=4,population=30")
    assert wide.searcher == "genetic:population=30,tournament=4"
    assert study("genetic:population=30,tournament=4").id == wide.id != plain.id
    with pytest.raises(UsageError, match="population of searcher genetic must be from 1"):
        study("genetic:population=0")


def test_a_searcher_sees_the_problem_and_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[SearchContext] = []

    def curious(context: SearchContext) -> Batches:
        seen.append(context)
        yield context.space.default()

    monkeypatch.setattr(registry, "_FACTORIES", {"curious": curious})
    context = FakeContext(lambda solver, config: 1.0, device=DEVICE)
    study = Study(PROBLEM, "nest", DEVICE.class_key, "curious", 0)
    made = solver_search.SolverSearch(
        PROBLEM, nest(), nest().space(PROBLEM, DEVICE), study, leads=True
    )
    made.start(context, TuneOptions(searcher="curious"))
    made.ask(9)
    assert (seen[0].problem, seen[0].device) == (PROBLEM, DEVICE)
