"""Paths of pages quote whatever names and keys have in them."""

from urllib.parse import unquote

import pytest
from workspaces import ODD

from skipjack.app.views import (
    entry_path,
    job_path,
    jobs_path,
    label_path,
    machine_path,
    problem_path,
    program_path,
    search_path,
    sweep_path,
    training_path,
)


@pytest.mark.parametrize(
    "path", [label_path, machine_path, problem_path, program_path, sweep_path, training_path]
)
@pytest.mark.parametrize("name", [ODD, "a/b", "../x", "a?b#c", "ü %41", "matmul:8x8x8:f32"])
def test_a_name_is_one_part_of_a_path(path: object, name: str) -> None:
    made = path(name)  # type: ignore[operator]
    assert made.count("/") == 2
    assert not set(made) & set("<>\"'?# ")
    assert unquote(made.rpartition("/")[2]) == name


def test_keys_of_problems_stay_legible() -> None:
    assert problem_path("matmul:8x8x8:f32") == "/problems/matmul:8x8x8:f32"
    assert entry_path("bank a/b", "add:5") == "/bank/bank%20a%2Fb/add:5"


def test_filters_are_a_query() -> None:
    assert jobs_path() == jobs_path(label="") == "/jobs"
    assert jobs_path(label="a b", state="error") == "/jobs?label=a+b&state=error"
    assert search_path("add:5", "1.s") == "/problems/add:5?search=1.s"
    assert job_path(17) == "/jobs/17"
