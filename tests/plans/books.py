"""A command book for tests, and plans written to files."""

from collections.abc import Sequence
from pathlib import Path

from skipjack.plans import (
    CommandBook,
    CommandParameter,
    Complaint,
    Mistakes,
    PlanCommand,
    PlannedStep,
    read_plan,
    validate,
)

LABEL = CommandParameter("label", "--label", short="l")


def _numbers_only(words: Sequence[str]) -> Complaint | None:
    if "--budget" in words and not words[words.index("--budget") + 1].isdecimal():
        return Complaint("invalid value for '--budget'", "budget")
    return None


def _command(name: str, *parameters: CommandParameter) -> PlanCommand:
    return PlanCommand(tuple(name.split()), parameters, _numbers_only)


BOOK: CommandBook = {
    command.name: command
    for command in (
        _command(
            "import",
            CommandParameter("file", "--file", short="f"),
            CommandParameter("tag", "--tag"),
        ),
        _command(
            "load",
            CommandParameter("label", "--label", required=True, short="l"),
            CommandParameter("tag", "--tag"),
            CommandParameter("device", "--device"),
            CommandParameter("arch", "--arch"),
            CommandParameter("versions", "--versions"),
            CommandParameter("budget", "--budget"),
            CommandParameter("fail-if-slower", "--fail-if-slower"),
            CommandParameter("sbatch", "--sbatch", repeatable=True),
            CommandParameter("stale", "--stale", flag=True),
            CommandParameter("color", "--color", "--no-color", flag=True),
        ),
        _command("export find-db", LABEL, CommandParameter("output", "--output", short="o")),
        _command("tune", LABEL, CommandParameter("problems", repeatable=True, required=True)),
        _command("note", CommandParameter("first"), CommandParameter("second")),
        _command(
            "machine add",
            CommandParameter("name", required=True),
            CommandParameter("range", "--range", width=2),
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
