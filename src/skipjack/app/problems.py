"""Problems from arguments and files, and the device that computes each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from skipjack.core import Device, Problem
from skipjack.devices import DeviceNotPresentError, check_threads, describe
from skipjack.errors import UsageError
from skipjack.gpu import find_gpus
from skipjack.interop import (
    ALL,
    LONE_LAYOUT,
    Defaults,
    Entry,
    NotApplicable,
    find_tune_command,
    has_lone_layout,
    is_own_message,
    read_text,
    without_comment,
)
from skipjack.native import cpu
from skipjack.reading import numbered
from skipjack.runtime import NoGpuError, select_device
from skipjack.solvers import EXAMPLE_GPUS, needs_gpu, refusal_of_all, solver_for
from skipjack.tuning.study import Limits, check_memory

# Problems from arguments and from files: keys, and commands of MIOpenDriver.

Say = Callable[[str], None]


class Placement(NamedTuple):
    """Where and how to tune a problem; None for what is not given."""

    device: str | None = None
    threads: int | None = None
    deployed: str | None = None
    caches: str | None = None


_ANYWHERE = Placement()
_STDIN = Path("-")
_DIRECTIONS = ("fwd", "bwd", "wrw", ALL)


def make_defaults(dtype: str | None, layout: str | None, direction: str | None) -> Defaults:
    """The defaults that a command's options set; case does not matter."""
    direction = direction.lower() if direction else None
    if direction not in (None, *_DIRECTIONS):
        raise UsageError(f"unknown direction {direction!r}; choose from {', '.join(_DIRECTIONS)}")
    return Defaults(dtype, layout.upper() if layout else None, direction)


@dataclass(frozen=True, slots=True)
class ProblemList:
    """Problems as users write them: keys, driver commands, their own kernels, a file."""

    texts: tuple[str, ...] = ()
    file: Path | None = None
    """A file with a key or a command on each line; ``-`` is standard input."""
    shapes: tuple[str, ...] = ()
    """Shapes for the user's own kernels, such as ``4096x1024``."""
    dtype: str | None = None
    """Used for keys that have none, like `layout` and `direction`."""
    layout: str | None = None
    direction: str | None = None

    def placed(self, say: Say = lambda _: None) -> dict[Placement, list[Entry]]:
        """The entries by where and how to tune them; see `read_placed`."""
        defaults = make_defaults(self.dtype, self.layout, self.direction)
        return read_placed(self.texts, self.file, defaults, self.shapes, say)

    def entries(self, say: Say = lambda _: None) -> list[Entry]:
        """The entries in order; see `read_problems`."""
        defaults = make_defaults(self.dtype, self.layout, self.direction)
        return read_problems(self.texts, self.file, defaults, self.shapes, say)

    @property
    def are_dumps(self) -> bool:
        """Whether the texts are directories of dumps; `UsageError` if only some are."""
        from skipjack.app.dumps import are_dumps

        said = (self.file, self.shapes or None, self.dtype, self.layout, self.direction)
        return are_dumps(self.texts, *said)


def regrouped(
    placed: Mapping[Placement, Iterable[Entry]], change: Callable[[Placement], Placement]
) -> dict[Placement, list[Entry]]:
    """The same entries by changed placements, without duplicates."""
    found: dict[Placement, dict[Entry, None]] = {}
    for at, entries in placed.items():
        found.setdefault(change(at), {}).update(dict.fromkeys(entries))
    return {at: list(entries) for at, entries in found.items()}


def read_problems(
    keys: Sequence[str],
    file: Path | None,
    defaults: Defaults,
    shapes: Sequence[str] = (),
    say: Say = lambda _: None,
) -> list[Entry]:
    """All requested problems in order, without duplicates; includes those that are not applicable.

    An argument with a space is a command of MIOpenDriver, which may stand for several problems; one
    with ``::`` is a kernel of the user's own, at each of the shapes. Any mistake raises an error.
    `say` gets sentences about lines of a list that are left out or read in an unusual way.
    """
    placed = read_placed(keys, file, defaults, shapes, say)
    return list(dict.fromkeys(entry for entries in placed.values() for entry in entries))


def read_placed(
    keys: Sequence[str],
    file: Path | None,
    defaults: Defaults,
    shapes: Sequence[str] = (),
    say: Say = lambda _: None,
) -> dict[Placement, list[Entry]]:
    """The same by placement, as given by ``skipjack tune`` commands in a file."""
    found = [(_ANYWHERE, entry) for key in keys for entry in _read_argument(key, defaults, shapes)]
    _say_lone_layouts(say, "", sum(has_lone_layout(key) for key in keys if "::" not in key))
    if shapes and not any("::" in key for key in keys):
        raise UsageError(
            "--shapes is only for kernels of your own, such as file.py::softmax; leave it out"
        )
    if file is not None:
        found += _read_file(file, defaults, say)
    if not found and file is not None:
        raise UsageError(
            f"{file} has no problems; write one on each line, such as matmul:192x192x192"
        )
    if not found:
        raise UsageError(
            "no problem given; write one, such as matmul:192x192x192, or give a file with -f"
        )
    _refuse_unused_options([entry for _, entry in found], defaults)
    placed: dict[Placement, list[Entry]] = {}
    for placement, entry in dict.fromkeys(found):
        placed.setdefault(placement, []).append(entry)
    return placed


def _read_argument(text: str, defaults: Defaults, shapes: Sequence[str]) -> Sequence[Entry]:
    from skipjack.integrations.triton import is_user_kernel, load_user_kernel

    if is_user_kernel(text):
        return load_user_kernel(text, list(shapes), defaults.dtype)
    return read_text(text, defaults)


def _refuse_unused_options(entries: list[Entry], defaults: Defaults) -> None:
    """Refuse options that have no effect on any problem."""
    problems = [entry for entry in entries if isinstance(entry, Problem)]
    if len(problems) < len(entries):
        return  # driver commands have their own layouts and directions
    for name in ("layout", "direction"):
        if getattr(defaults, name) and not any(getattr(problem, name) for problem in problems):
            raise UsageError(f"--{name} has no effect on {problems[0].key}; leave it out")


def _read_file(path: Path, defaults: Defaults, say: Say) -> list[tuple[Placement, Entry]]:
    found: list[tuple[Placement, Entry]] = []
    left_out = lone_layouts = 0
    for number, line in enumerate(_lines(path), 1):
        text = without_comment(line)
        if not text:
            continue
        if is_own_message(text):
            left_out += 1
            continue
        try:
            command = find_tune_command(text)
            placement = _ANYWHERE
            if command:
                placement = Placement(
                    command.device, command.threads, command.deployed, command.caches
                )
            found += [(placement, entry) for entry in read_text(text, defaults)]
            lone_layouts += has_lone_layout(text)
        except UsageError as error:
            raise UsageError(f"{_name(path)}, line {number}: {error}") from None
    if left_out:
        say(
            f"{_name(path)}: left out {numbered(left_out, 'message')} of Skipjack that "
            f"{'names' if left_out == 1 else 'name'} no problem to tune"
        )
    _say_lone_layouts(say, f"{_name(path)}: ", lone_layouts)
    return found


def _say_lone_layouts(say: Say, where: str, count: int) -> None:
    """Report this once for a whole list."""
    if count:
        say(f"{where}{numbered(count, 'command')}: {LONE_LAYOUT}")


def _lines(path: Path) -> list[str]:
    try:
        text = sys.stdin.read() if path == _STDIN else path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{_name(path)} is not a text file") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return text.splitlines()


def _name(path: Path) -> str:
    return "stdin" if path == _STDIN else str(path)


# The device that computes a problem, and checks before anything is started.


def choose_device(
    text: str | None, threads: int | None, entries: Iterable[Entry], *, build_only: bool = False
) -> Device:
    """A device of this machine; with `build_only`, any known device."""
    problems = [entry for entry in entries if isinstance(entry, Problem)]
    if not build_only or text == "gpu":
        try:
            return select_device(problems, text, threads)
        except NoGpuError as error:
            raise NoGpuError(f"{error}; {_gpu_advice()}") from None
        except DeviceNotPresentError as error:
            how = "skipjack tune --build-only builds for it without running"
            raise DeviceNotPresentError(f"{error}; {how}") from None
    if text is None or text == "cpu":
        device = replace(cpu.detect(), units=threads or 1)
        _check_buildable(problems, device)
        return device
    check_threads(text, threads)
    return describe(text)


def _gpu_advice() -> str:
    """Advice if the right GPU is missing."""
    if find_gpus():
        return "leave --threads out, and add --device gpu"
    return (
        f"tune --build-only with --device {' or '.join(EXAMPLE_GPUS)} builds it without running; "
        "skipjack doctor says why no GPU is found"
    )


def _check_buildable(problems: Sequence[Problem], device: Device) -> None:
    for problem in problems:
        if needs_gpu(problem, device):
            raise UsageError(
                f"{refusal_of_all(problem, device)}; name one with --device, such as "
                f"{' or '.join(EXAMPLE_GPUS)}"
            )


def without_missing_gpus(placed: Mapping[Placement, list[Entry]]) -> dict[Placement, list[Entry]]:
    """The same; in a list, a problem that needs a missing GPU is marked not applicable."""
    if sum(map(len, placed.values())) < 2:
        return dict(placed)
    found: dict[Placement, list[Entry]] = {}
    for at, entries in placed.items():
        kept = found.setdefault(at, [])
        for entry in entries:
            try:
                if isinstance(entry, Problem):
                    select_device([entry], at.device, at.threads)
                kept.append(entry)
            except NoGpuError as error:
                kept.append(NotApplicable(str(entry), str(error)))
            except UsageError:
                kept.append(entry)  # choose_device reports what is wrong with it
    return found


def check_problem(problem: Problem, device: Device, limits: Limits, solver: str | None) -> None:
    """Refuse a problem that a device cannot compute, or whose arrays do not fit its memory."""
    check_memory(problem, device.memory_bytes, limits.memory_share)
    solver_for(problem, device, solver)


def check_trace(trace: Path | None) -> None:
    """Refuse a trace file that cannot be written."""
    if trace and not trace.absolute().parent.is_dir():
        raise UsageError(f"cannot write {trace}: there is no directory {trace.absolute().parent}")
