"""Plans of jobs: devices, solvers, what is left out, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Self

import pytest

from skipjack.cli.fleet.load import _check_for_cpus
from skipjack.core import Device
from skipjack.errors import UsageError
from skipjack.fleet.labels import PlannedJobs, PlanOptions, ProblemSelection, plan_jobs
from skipjack.fleet.model import JobPlan
from skipjack.fleet.store import DeviceClass, ProblemRow
from skipjack.fleet.toolchain import toolchain
from skipjack.operations import parse
from skipjack.solvers import find_solver

CONV, MATMUL = parse("conv2d:n1c8h8w8k8y3x3").key, parse("matmul:8x8x8").key
HERE = "haswell/1"
REAL = Device("cpu", "haswell", 1, "a real one", ("avx2", "fma"), vector_bytes=32)
EVERYTHING = ProblemSelection(everything=True)


@dataclass
class Known:
    """A store of two problems."""

    plans: list[JobPlan] = field(default_factory=list)
    fresh: set[int] = field(default_factory=set)
    devices: dict[str, Device] = field(default_factory=lambda: {HERE: REAL})
    asked: dict[str, object] = field(default_factory=dict)

    @property
    def problems(self) -> Self:
        return self

    @property
    def machines(self) -> Self:
        return self

    @property
    def jobs(self) -> Self:
        return self

    @property
    def labels(self) -> SimpleNamespace:
        return SimpleNamespace(plans=lambda label: self.plans)

    def find(
        self,
        *,
        tag: str | None = None,
        operations: Sequence[str] = (),
        recurrent: bool = False,
        directions: Sequence[str] = (),
        dtype: str | None = None,
    ) -> Iterator[ProblemRow]:
        self.asked = {"tag": tag, "recurrent": recurrent, "directions": directions}
        self.asked["operations"] = sorted(operations)
        yield ProblemRow(1, CONV, "conv2d", "fwd", "f32", False)
        yield ProblemRow(2, MATMUL, "matmul", "", "f32", False)

    def stale(self, device: Device, toolchain: str, problem_ids: Iterable[int]) -> set[int]:
        self.asked["toolchain"] = toolchain
        return set(problem_ids) - self.fresh

    def known_device(self, name: str, label: str = "") -> Device | None:
        return None

    def device_classes(self, name: str) -> list[DeviceClass]:
        return [DeviceClass(self.devices[name], ("m",))] if name in self.devices else []


def test_by_default_a_job_is_a_problem_on_a_device() -> None:
    planned = plan_jobs(Known(), EVERYTHING, PlanOptions((HERE, "gfx90a/104"), budget=8))
    assert planned.chosen == {HERE: Known().devices[HERE]}
    assert replace(planned, chosen={}) == PlannedJobs(
        [
            JobPlan(problem, device, budget=8, round=8)
            for device in (HERE, "gfx90a/104")
            for problem in (CONV, MATMUL)
        ],
        problems=2,
    )


def test_parameters_of_a_searcher_are_recorded_as_studies_do() -> None:
    terms = PlanOptions((HERE,), searcher="genetic:tournament=3,population=30", budget=8)
    planned = plan_jobs(Known(), EVERYTHING, terms)
    assert {plan.searcher for plan in planned.plans} == {"genetic:population=30"}
    with pytest.raises(UsageError, match="searcher genetic has no parameter 'size'"):
        plan_jobs(Known(), EVERYTHING, PlanOptions((HERE,), searcher="genetic:size=3"))


def test_all_makes_a_job_for_every_solver_that_can_do_it() -> None:
    planned = plan_jobs(Known(), EVERYTHING, PlanOptions((HERE,), "all"))
    solvers = {(plan.problem, plan.solver) for plan in planned.plans}
    assert {(CONV, "direct"), (CONV, "winograd2"), (MATMUL, "packed")} <= solvers
    assert (MATMUL, "direct") not in solvers
    assert len(solvers) == len(planned.plans)
    assert planned.not_applicable > 0


def test_operations_are_named_or_meant_by_a_pattern() -> None:
    store = Known()
    plan_jobs(
        store,
        ProblemSelection(everything=True, operations=("conv*", "matmul")),
        PlanOptions((HERE,)),
    )
    every = ["conv2d", "conv3d", "conv_transpose2d", "conv_transpose3d", "matmul"]
    assert store.asked["operations"] == every


def test_named_solvers_get_jobs_where_they_apply() -> None:
    planned = plan_jobs(Known(), EVERYTHING, PlanOptions((HERE,), "direct, packed"))
    assert [(plan.problem, plan.solver) for plan in planned.plans] == [
        (CONV, "direct"),
        (MATMUL, "packed"),
    ]
    assert planned.not_applicable == 2


@pytest.mark.parametrize(
    ("solver", "says"),
    [
        ("pakced", "did you mean packed"),
        ("numpy", "nothing to tune"),
        ("all,packed", "cannot be combined with others"),
        ("", "unknown solver"),
    ],
)
def test_unknown_solvers_are_refused(solver: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan_jobs(Known(), EVERYTHING, PlanOptions((HERE,), solver or "packed,"))


@pytest.mark.parametrize("solver", [None, "auto", "all", "packed"])
def test_gpus_that_nothing_builds_for_are_refused(solver: str | None) -> None:
    with pytest.raises(UsageError, match=r"Triton cannot build for gfx900: .* gfx908"):
        plan_jobs(Known(), EVERYTHING, PlanOptions((HERE, "gfx900/56"), solver))


@pytest.mark.parametrize(
    ("device", "says"), [("znver", "arch/units"), ("znver44/1", "LLVM does not know the CPU")]
)
def test_a_device_that_nobody_has_is_refused(device: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        plan_jobs(Known(), EVERYTHING, PlanOptions((device,)))


def test_only_stale_ones_are_planned() -> None:
    store = Known(fresh={1})
    planned = plan_jobs(store, ProblemSelection(recurrent=True, stale=True), PlanOptions((HERE,)))
    assert [plan.problem for plan in planned.plans] == [MATMUL]
    assert (planned.problems, planned.fresh) == (2, 1)
    assert store.asked["toolchain"] == toolchain(REAL)
    assert store.asked["recurrent"] is True


def test_a_label_is_copied_as_it_is_or_to_other_devices() -> None:
    old = [
        JobPlan(CONV, "gfx90a/104", seed=5, budget=100, round=10),
        JobPlan(MATMUL, HERE, "packed"),
    ]
    store = Known([*old, JobPlan("relu:4:f32", HERE)])
    copy = ProblemSelection(from_label="A")
    assert plan_jobs(store, copy, PlanOptions()).plans == old, "and relu is retired"
    moved = plan_jobs(store, copy, PlanOptions((HERE,), budget=4)).plans
    assert moved == [
        JobPlan(CONV, HERE, seed=5, budget=4, round=4),
        JobPlan(MATMUL, HERE, "packed", budget=4, round=4),
    ]
    assert [plan.solver for plan in plan_jobs(store, copy, PlanOptions(solver="auto")).plans] == [
        "auto",
        "auto",
    ]


@pytest.mark.parametrize(
    ("selection", "terms", "says"),
    [
        (ProblemSelection(), PlanOptions((HERE,)), "no problems are selected"),
        (
            ProblemSelection(tag="t", everything=True),
            PlanOptions((HERE,)),
            "cannot be combined with a tag",
        ),
        (
            ProblemSelection(tag="t", operations=("matmull",)),
            PlanOptions((HERE,)),
            "did you mean matmul",
        ),
        (ProblemSelection(tag="t", dtype="f8"), PlanOptions((HERE,)), "unknown dtype"),
        (ProblemSelection(tag="t", directions=("up",)), PlanOptions((HERE,)), "unknown direction"),
        (ProblemSelection(tag="t"), PlanOptions(), "name one"),
        (ProblemSelection(tag="t"), PlanOptions((HERE,), budget=0), "at least one trial"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    selection: ProblemSelection, terms: PlanOptions, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        plan_jobs(Known(), selection, terms)


def test_the_toolchain_is_one_short_text_that_names_what_matters() -> None:
    text = toolchain(REAL)
    assert text == toolchain(REAL)
    assert text.startswith("skipjack ")
    assert "llvm" in text
    assert len(text) <= 255


def test_jobs_for_a_gpu_that_a_plugin_builds_for_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    nest = find_solver("nest")
    monkeypatch.setattr(nest, "kinds", ("hip",), raising=False)
    planned = plan_jobs(Known(), EVERYTHING, PlanOptions(("gfx900/56",)))
    assert {plan.device for plan in planned.plans} == {"gfx900/56"}


def test_a_day_on_which_only_problems_for_gpus_are_left_is_a_good_one() -> None:
    left = [JobPlan("add:64:f16", HERE)]
    _check_for_cpus(PlannedJobs(left, fresh=1))
    with pytest.raises(UsageError, match="which no kernel for CPUs computes in"):
        _check_for_cpus(PlannedJobs(left))
