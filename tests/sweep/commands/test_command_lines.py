"""Placeholders are filled in per argument, and nothing is ever read as code."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import UsageError
from skipjack.sweep.commands import CommandTemplate


def test_arguments_are_split_once_and_filled_in_whole() -> None:
    command = CommandTemplate.parse("./run.sh {batch} --name='{name} x' {{literal}}")
    filled = command.filled({"batch": "8", "name": "a b; rm -rf"})
    assert filled == ("./run.sh", "8", "--name=a b; rm -rf x", "{literal}")
    assert command.placeholders == {"batch", "name"}


@given(st.text())
def test_a_value_stays_one_argument(value: str) -> None:
    assert CommandTemplate.parse("run {x}").filled({"x": value}) == ("run", value)


def test_a_placeholder_nobody_knows_is_refused_with_what_was_meant(tmp_path: Path) -> None:
    command = CommandTemplate.parse("/bin/true {bacth}")
    with pytest.raises(UsageError, match=r"--run-cmd: \{bacth\} .* did you mean batch\?"):
        command.check(["batch", "threads"], tmp_path, "--run-cmd")


@pytest.mark.parametrize(
    "text",
    [
        "sh -c 'echo {batch}'",
        "bash -ec 'echo {batch}'",
        "bash -o pipefail -c 'echo {batch}'",
        "timeout 10 /bin/dash -c 'echo {batch}'",
    ],
)
def test_a_placeholder_inside_a_script_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r'executed as code; write "\$batch" instead'):
        CommandTemplate.parse(text)


def test_the_message_names_the_variable_of_special_placeholders() -> None:
    with pytest.raises(UsageError, match=r"\$SKIPJACK_BUILD_DIR"):
        CommandTemplate.parse("sh -c 'ls {build_dir}'")


def test_the_braces_of_a_script_are_its_own() -> None:
    command = CommandTemplate.parse(
        """sh -c 'f() { echo "${batch}" | awk "{print}{{"; }; f' {threads}"""
    )
    script = """f() { echo "${batch}" | awk "{print}{{"; }; f"""
    assert command.filled({"threads": "2"})[2:] == (script, "2")


@pytest.mark.parametrize("text", ["run {", "run }", "run {a b}", "run {0}", "run {}"])
def test_half_a_placeholder_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a placeholder"):
        CommandTemplate.parse(text)


def test_quotes_that_do_not_end_and_nothing_at_all_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--run-cmd: .* cannot be split"):
        CommandTemplate.parse("run 'x", "--run-cmd")
    with pytest.raises(UsageError, match="--run-cmd is empty"):
        CommandTemplate.parse("  ", "--run-cmd")


def test_programs_are_looked_for_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    for text, message in (
        ("./missing.sh", "./missing.sh does not exist in"),
        ("./plain.sh", "./plain.sh is not executable; try `chmod"),
        ("./folder", "./folder is a directory"),
        ("no-such-program-anywhere", "command not found: no-such-program-anywhere"),
        ("plain.sh", r"command not found: plain.sh; did you mean ./plain.sh\?"),
    ):
        with pytest.raises(UsageError, match=message):
            CommandTemplate.parse(text).check([], tmp_path)
