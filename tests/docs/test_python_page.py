"""The page on the Python API names what there is."""

import inspect
import re
from pathlib import Path

import pytest

import skipjack
from skipjack import errors
from skipjack.runtime.local_kernels import TunedKernel
from skipjack.tuning import FindResult, RankedSolver
from skipjack.tuning.study import TuneResult

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()


def names_in(section: str) -> set[str]:
    """The names in the first column of a section's tables."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {
        name
        for row in rows
        for name in re.findall(r"`(?:skipjack\.|kernel\.)?(\w+)(?:\(.*?\))?`", row)
    }


@pytest.mark.parametrize(
    ("section", "kind"), [("What tune gives", TuneResult), ("What find gives", FindResult)]
)
def test_the_page_lists_all_members_of_a_result(section: str, kind: type) -> None:
    assert names_in(section) == {name for name in dir(kind) if not name.startswith("_")}


def test_the_page_lists_the_front_door_arguments_kernels_and_errors() -> None:
    front = re.findall(r"^\| `skipjack\..*?\|", PAGE, re.MULTILINE)
    named = {name for row in front for name in re.findall(r"`skipjack\.(\w+)", row)}
    results = {"FindResult", "TuneOptions", "TuneResult", "TunedKernel", "__version__"}
    assert named == set(skipjack.__all__) - results
    functions = (skipjack.tune, skipjack.find, skipjack.lookup)
    taken = {name for one in functions for name in inspect.signature(one).parameters}
    assert names_in("Arguments") == taken - {"problem"}
    assert names_in("Kernels") - {"kernel", "problem", "solver"} <= set(dir(TunedKernel))
    assert all(hasattr(errors, name) for name in names_in("Errors"))
    assert all(f"`{name}`" in PAGE for name in inspect.get_annotations(RankedSolver))
