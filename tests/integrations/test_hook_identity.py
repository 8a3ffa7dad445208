"""A hook's text changes with what the hook does, and is the same in every process."""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipjack.integrations.triton.identity import hook_text

Hook = Callable[[Any], object]


def hook_in(source: str, **scope: Any) -> Hook:
    """The function ``hook`` of a text."""
    names: dict[str, Any] = {**scope}
    exec(compile(source, "hooks.py", "exec"), names)
    hook: Hook = names["hook"]
    return hook


SOURCE = '''
FACTOR = 2
SIZES = (16, 32)

def scaled(n):
    return n * FACTOR

def hook(args, more={"a": 1}, *, step=4):
    """Sets a block."""
    args["block"] = sum(scaled(n) for n in SIZES if n in {16, 32, 64}) + step
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum(", "max("),
        ("step=4", "step=8"),
        ("{16, 32, 64}", "{16, 32, 128}"),  # a constant of the generator inside
        ("SIZES = (16, 32)", "SIZES = (16, 64)"),
        ("FACTOR = 2", "FACTOR = 3"),  # read by a function that the hook calls
        ("return n * FACTOR", "return n + FACTOR"),
    ],
)
def test_an_edit_that_does_something_makes_another_hook(old: str, new: str) -> None:
    assert old in SOURCE
    assert hook_text(hook_in(SOURCE)) != hook_text(hook_in(SOURCE.replace(old, new)))


def test_words_about_a_hook_are_no_part_of_it() -> None:
    again = SOURCE.replace('"""Sets a block."""', '"""Says more."""\n    # so') + "\nUNUSED = 5\n"
    assert hook_text(hook_in(SOURCE)) == hook_text(hook_in(again))


def closing_over(value: Any) -> Hook:
    return lambda args: value


class Setter:
    def __init__(self, block: int) -> None:
        self.block = block

    def __call__(self, args: Any) -> object:
        return self.block

    def other(self, args: Any) -> object:
        return self.block


@pytest.mark.parametrize(
    "make",
    [
        closing_over,
        lambda n: closing_over((1, closing_over(n))),
        lambda n: closing_over(closing_over(n)),
        lambda n: functools.partial(closing_over, n),
        Setter,
        lambda n: Setter(n).other,
        lambda n: closing_over(Setter(n)),
    ],
)
def test_hooks_with_other_values_are_others(make: Callable[[int], Hook]) -> None:
    assert hook_text(make(64)) == hook_text(make(64))
    assert hook_text(make(64)) != hook_text(make(128))


def test_what_a_hook_changes_itself_is_no_part_of_it() -> None:
    count, seen = 0, list[int]()

    def hook(args: Any) -> None:
        nonlocal count
        count += 1
        seen.append(count)

    before = hook_text(hook)
    hook({})
    assert hook_text(hook) == before


def test_hooks_that_call_each_other_have_a_text() -> None:
    source = "def other(args): return hook(args)\ndef hook(args): return other(args)\n"
    assert hook_text(hook_in(source)) != hook_text(hook_in(source.replace("n hook", "n not hook")))


def test_builtins_are_known_by_their_names() -> None:
    assert hook_text(len) != hook_text(print)


def test_every_process_gives_a_hook_the_same_text(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    source = "from skipjack.integrations.triton.identity import hook_text\nimport pathlib, sys\n"
    file.write_text(f"{source}{SOURCE}    pathlib.Path(scaled)\nprint(hook_text(hook))\n")
    said = {
        subprocess.run(
            [sys.executable, str(file)],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
