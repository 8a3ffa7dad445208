"""Labels: made with their first jobs, completed later, never taken over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skipjack.errors import UsageError
from skipjack.fleet.model import JobPlan, JobState, Label
from skipjack.fleet.store import LabelSummary, NewProblem, Store

ON_SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""Where all databases are asked the same."""

PLAN = JobPlan("matmul:8x8x8:f32", "znver4/1")


def loaded(store: Store, label: Label) -> Label:
    store.problems.add([NewProblem(PLAN.problem, "matmul", "", "f32")], "t")
    store.jobs.add(label, [PLAN])
    return store.labels.get(label.name)


def test_a_label_keeps_its_owner_and_what_was_said_first(store: Store) -> None:
    loaded(store, Label("L", "ann", ticket="T-1"))
    label = loaded(store, Label("L", "bob", ticket="T-2", image="box:3"))
    assert replace(label, created="") == Label("L", "ann", ticket="T-1", image="box:3")


@ON_SQLITE
def test_labels_are_listed_with_the_states_of_their_jobs(store: Store) -> None:
    first, second = loaded(store, Label("L", "ann")), loaded(store, Label("l", "ann"))
    jobs = {JobState.NEW: 1}
    assert store.labels.all() == [
        LabelSummary(first, False, jobs),
        LabelSummary(second, False, jobs),
    ]
    store.jobs.abort(label="l")
    assert store.labels.all()[1] == LabelSummary(second, True, {JobState.ABORTED: 1})


@ON_SQLITE
def test_an_unknown_label_is_refused_with_near_ones(store: Store) -> None:
    with pytest.raises(UsageError, match="there is none yet; create one with skipjack load"):
        store.labels.get("resnet")
    loaded(store, Label("resnet_2026", "ann"))
    for ask in (
        store.labels.get,
        store.labels.plans,
        store.queue.live,
        lambda name: list(store.results.jobs(name)),
    ):
        with pytest.raises(UsageError, match="'resnet_2025': did you mean resnet_2026"):
            ask("resnet_2025")


@ON_SQLITE
@pytest.mark.parametrize("name", ["", "x" * 256, " x", "a\nb"])
def test_names_that_no_column_holds_are_refused(store: Store, name: str) -> None:
    with pytest.raises(UsageError, match="label"):
        loaded(store, Label(name, "ann"))
    assert store.labels.all() == []


@ON_SQLITE
def test_names_that_another_program_could_take_for_options_are_refused(store: Store) -> None:
    for label in (Label("-x", "me"), Label("L", "-x"), Label("L", "me", image="-v/:/mnt")):
        with pytest.raises(UsageError, match="begins with a dash"):
            loaded(store, label)
    with pytest.raises(UsageError, match="tag '--all' begins with a dash"):
        store.problems.add([NewProblem(PLAN.problem, "matmul", "", "f32")], "--all")
