"""The paths of pages, which tables and records link to."""

from __future__ import annotations

from urllib.parse import quote, urlencode

_PLAIN = ":,=+@"


def _part(text: str) -> str:
    return quote(text, safe=_PLAIN)


def job_path(id: int) -> str:
    """``/jobs/17``."""
    return f"/jobs/{id}"


def jobs_path(**filters: str) -> str:
    """The table of jobs with these filters: ``/jobs?state=error``."""
    given = {name: value for name, value in filters.items() if value}
    return f"/jobs?{urlencode(given)}" if given else "/jobs"


def label_path(name: str) -> str:
    """``/labels/resnet``."""
    return f"/labels/{_part(name)}"


def machine_path(name: str) -> str:
    """``/machines/gpu7``."""
    return f"/machines/{_part(name)}"


def problem_path(key: str) -> str:
    """``/problems/matmul:192x192x192``; slashes in keys are quoted."""
    return f"/problems/{_part(key)}"


def search_path(key: str, search: str) -> str:
    """A search on the page of its problem."""
    return f"{problem_path(key)}?{urlencode({'search': search})}"


def sweep_path(key: str) -> str:
    """``/sweeps/KEY``."""
    return f"/sweeps/{_part(key)}"


def training_path(name: str) -> str:
    """``/training/NAME``."""
    return f"/training/{_part(name)}"


def entry_path(layer: str, problem: str) -> str:
    """The entries of a problem in a bank: ``/bank/user/matmul:192x192x192``."""
    return f"/bank/{_part(layer)}/{_part(problem)}"


def program_path(name: str) -> str:
    """``/programs/tune_result_20261116_101500_pid4242.json``."""
    return f"/programs/{_part(name)}"
