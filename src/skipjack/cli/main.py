"""The ``skipjack`` command: all commands in a table; heavy imports only where they are needed."""

from __future__ import annotations

import atexit
import copy
import gc
import logging
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import skipjack
from skipjack.cli import (
    bank,
    databases,
    export,
    learn,
    ledger,
    machine,
    plans,
    release,
    replay,
    report,
    sweep,
    tune,
    web,
)
from skipjack.cli.arguments import BadRequest, CommandList, complaint_text, examples, keep_defaults
from skipjack.cli.fleet import bundles, cluster, images, jobs, load, machines, problems, runs, store
from skipjack.cli.loops import app as loops_app
from skipjack.cli.program import EXEC_EXAMPLES, exec_program
from skipjack.errors import SkipjackError
from skipjack.report import escaped_output, use_plain_characters
from skipjack.settings import LOG_LEVELS, load_settings

INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""
MEASURING = {"tune", "find", "sweep", "grid", "run", "bundle"}
"""Commands that keep their results in the ledger or the store."""
OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""By default, Python collects garbage every 700 objects. Modules load faster if it does so seldom,
as almost all objects that they create stay alive."""

app = typer.Typer(
    name="skipjack",
    help="Find the fastest way to run a kernel on the hardware at hand, and remember it.",
    epilog=examples(
        "skipjack tune matmul:192x192x192 --seconds 5",
        "skipjack find matmul:192x192x192",
        "skipjack bank show matmul:192x192x192",
        "skipjack doctor",
    ),
    cls=CommandList,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    # Color is on so that click keeps escape sequences: `escaped_output` shows them in pipes, too.
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
)


class _Task(StrEnum):
    """The sections of the help."""

    TUNE = "Tune a problem or a benchmark"
    PROGRAMS = "Run programs with tuned kernels"
    KNOWN = "See, share and export results"
    MACHINE = "Inspect this machine"
    LEARN = "Learn from results"
    FLEET = "Tune with many machines"
    RELEASE = "Release results of a fleet"


def _command(
    task: _Task, name: str, does: Callable[..., None], epilog: str, **context: bool
) -> None:
    app.command(name, epilog=epilog, rich_help_panel=task, context_settings=context or None)(does)


def _group(task: _Task, name: str, group: typer.Typer) -> None:
    app.add_typer(group, name=name, cls=CommandList, rich_help_panel=task)


_command(_Task.TUNE, "tune", tune.tune, tune.TUNE_EXAMPLES)
_command(_Task.TUNE, "find", tune.find, tune.FIND_EXAMPLES)
_command(_Task.TUNE, "sweep", sweep.sweep, sweep.SWEEP_EXAMPLES)
_command(_Task.TUNE, "grid", sweep.grid, sweep.GRID_EXAMPLES)
_group(_Task.TUNE, "loops", loops_app)
# Arguments after the program are the program's.
_its_own = {"allow_interspersed_args": False, "ignore_unknown_options": False}
_command(_Task.PROGRAMS, "exec", exec_program, EXEC_EXAMPLES, **_its_own)
_command(_Task.KNOWN, "report", report.report, report.EXAMPLES)
_command(_Task.KNOWN, "web", web.web, web.WEB_EXAMPLES)
_group(_Task.KNOWN, "bank", bank.app)
_group(_Task.KNOWN, "ledger", ledger.app)

_group(_Task.KNOWN, "export", export.app)
_command(_Task.KNOWN, "convert-db", databases.convert_db, databases.CONVERT_EXAMPLES)
_command(_Task.KNOWN, "check-db", databases.check_db, databases.CHECK_EXAMPLES)
_group(_Task.LEARN, "learn", learn.app)
_command(_Task.LEARN, "replay", replay.replay, replay.REPLAY_EXAMPLES)
_command(_Task.MACHINE, "device", machine.device, machine.DEVICE_EXAMPLES)
_command(_Task.MACHINE, "doctor", machine.doctor, machine.DOCTOR_EXAMPLES)
_command(_Task.MACHINE, "limits", machine.limits, machine.LIMITS_EXAMPLES)
_command(_Task.FLEET, "import", problems.import_problems, problems.IMPORT_EXAMPLES)
_command(_Task.FLEET, "load", load.load, load.EXAMPLES)
_command(_Task.FLEET, "run", runs.run, runs.EXAMPLES)
_command(_Task.FLEET, "status", jobs.status, jobs.STATUS_EXAMPLES)
_group(_Task.FLEET, "job", jobs.app)
_command(_Task.FLEET, "reset", jobs.reset, jobs.RESET_EXAMPLES)
_command(_Task.FLEET, "abort", jobs.abort, jobs.ABORT_EXAMPLES)
_command(_Task.FLEET, "resume", jobs.resume, jobs.RESUME_EXAMPLES)
_group(_Task.FLEET, "machine", machines.app)
_group(_Task.FLEET, "fleet", cluster.app)
_group(_Task.FLEET, "image", images.app)
_group(_Task.FLEET, "bundle", bundles.app)
_group(_Task.FLEET, "store", store.app)
_group(_Task.FLEET, "problems", problems.app)
_group(_Task.FLEET, "plan", plans.app)
_command(_Task.RELEASE, "compare", release.compare, release.COMPARE_EXAMPLES)
_command(_Task.RELEASE, "promote", release.promote, release.PROMOTE_EXAMPLES)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"skipjack {skipjack.__version__}")
        raise typer.Exit


@app.callback()
def main(
    log_level: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(LOG_LEVELS)}; or set SKIPJACK_LOG_LEVEL."),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options that precede the command."""
    set_log_level(log_level)


def set_log_level(log_level: str | None) -> None:
    """Log to standard error from this level on."""
    # First, as loading the settings may log something.
    logging.basicConfig(
        format="skipjack: %(levelname)s: %(message)s", stream=sys.stderr, force=True
    )
    level = load_settings(log_level=log_level).log_level
    logging.getLogger().setLevel(level.upper())


def run() -> None:
    """Run the command; every failure becomes one sentence and an exit code."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    # Otherwise Python collects garbage at exit, which takes 0.18 s if SQLAlchemy was loaded.
    atexit.register(gc.freeze)
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        use_plain_characters(stream)
    with escaped_output():
        _run_command()


def _run_command() -> NoReturn:
    try:
        code = _application(sys.argv[1:2])(standalone_mode=False)
        sys.stdout.flush()
    except SkipjackError as error:
        _end(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BadRequest as error:
        _end(_complaint(error), 2)
    except MemoryError as error:
        logging.getLogger(__name__).debug("details", exc_info=True)
        what = f" ({error})" if str(error) else ""
        _end(
            f"out of memory{what}; free some, or raise the limit (ulimit -v)",
            1,
        )
    except OSError as error:
        logging.getLogger(__name__).debug("details", exc_info=True)
        where = f": {error.filename}" if error.filename else ""
        _end(f"{error.strerror or error}{where}", 1)
    except Exception as error:
        logging.getLogger(__name__).debug("details", exc_info=True)
        kind = type(error).__name__
        _end(f"internal error ({kind}: {error}); skipjack --log-level debug ... shows where", 1)
    if code == INTERRUPTED:
        kept = "what was measured is kept, " if MEASURING & set(sys.argv[1:]) else ""
        _end(f"interrupted; {kept}run again to continue", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _application(first: list[str]) -> Callable[..., object]:
    """Parse only the command named by the first word: parsers of all take a tenth of a second."""
    commands = [one for one in app.registered_commands if [one.name] == first]
    groups = [one for one in app.registered_groups if [one.name] == first]
    narrowed = copy.copy(app)
    if commands or groups:
        narrowed.registered_commands, narrowed.registered_groups = commands, groups
    parsed = typer.main.get_command(narrowed)
    keep_defaults(parsed)
    return parsed


def _open_standard_streams() -> None:
    """Open the null device in place of standard streams that the caller closed, as by ``>&-``.

    Python sets such a stream to None. Worse, the next file to be opened would get its number, and
    output of a library would be written into a ledger.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  (stays open)
            setattr(sys, name, stream)


def _complaint(error: Exception) -> str:
    """The parser's complaint as one sentence."""
    text = complaint_text(error)
    context = getattr(error, "ctx", None)
    if "\n" in text:  # a command group without a command: the text is its help
        print(text, file=sys.stderr)
        text = "no command given"
    path = context.command_path if context else "skipjack"
    return f"{text}; see {path} --help"


def _end(sentence: str, code: int) -> NoReturn:
    print(f"skipjack: {sentence}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    run()
