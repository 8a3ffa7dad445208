"""A book of commands for tests, and plans written into files."""

from collections.abc import Sequence
from pathlib import Path

from skipjack.plans import (
    Command,
    CommandBook,
    Complaint,
    Mistakes,
    Parameter,
    PlannedStep,
    read_plan,
    validate,
)

LABEL = Parameter("label", "--label", short="l")


def _numbers_only(words: Sequence[str]) -> Complaint | None:
    if "--budget" in words and not words[words.index("--budget") + 1].isdecimal():
        return Complaint("invalid value for '--budget'", "budget")
    return None


def _command(name: str, *parameters: Parameter) -> Command:
    return Command(tuple(name.split()), parameters, _numbers_only)


BOOK: CommandBook = {
    command.name: command
    for command in (
        _command("import", Parameter("file", "--file", short="f"), Parameter("tag", "--tag")),
        _command(
            "load",
            Parameter("label", "--label", required=True, short="l"),
            Parameter("tag", "--tag"),
            Parameter("device", "--device"),
            Parameter("arch", "--arch"),
            Parameter("versions", "--versions"),
            Parameter("budget", "--budget"),
            Parameter("fail-if-slower", "--fail-if-slower"),
            Parameter("sbatch", "--sbatch", repeatable=True),
            Parameter("stale", "--stale", flag=True),
            Parameter("color", "--color", "--no-color", flag=True),
        ),
        _command("export find-db", LABEL, Parameter("output", "--output", short="o")),
        _command("tune", LABEL, Parameter("problems", repeatable=True, required=True)),
        _command("note", Parameter("first"), Parameter("second")),
        _command(
            "machine add", Parameter("name", required=True), Parameter("range", "--range", width=2)
        ),
        _command("status", LABEL),
    )
}


def plan_file(directory: Path, text: str) -> Path:
    """A plan in a file; of a text without `steps` these are all there is to it."""
    path = directory / "cycle.yaml"
    path.write_text(text if "steps:" in text else f"steps:\n{text}")
    return path


def checked(path: Path) -> tuple[tuple[PlannedStep, ...], list[str]]:
    """The steps of a plan and its mistakes, as ``LINE: sentence``."""
    mistakes = Mistakes(path)
    steps = validate(read_plan(path, mistakes), BOOK, mistakes)
    return steps, [line.removeprefix(f"{path}:") for line in mistakes.lines]


def words(directory: Path, text: str) -> tuple[str, ...]:
    """The command line of the first step of a plan that has no mistakes."""
    steps, mistakes = checked(plan_file(directory, text))
    assert not mistakes
    return steps[0].argv
