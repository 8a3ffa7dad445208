"""Which device computes a problem, and what is refused before anything is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from skipjack.app.problem_lists import Placement
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.devices import NotHereError, check_threads, describe
from skipjack.errors import UsageError
from skipjack.gpu.opening import find_gpus
from skipjack.interop import Entry, NotApplicable
from skipjack.native import cpu
from skipjack.runtime import NoGpuError, place
from skipjack.solvers import EXAMPLE_GPUS, for_gpus_alone, refusal_of_all, solver_for
from skipjack.tuning import Limits, check_memory


def choose_device(
    text: str | None, threads: int | None, entries: Iterable[Entry], *, build_only: bool = False
) -> Device:
    """A device that is here; where nothing runs, any that can be built for."""
    problems = [entry for entry in entries if isinstance(entry, Problem)]
    if not build_only or text == "gpu":
        try:
            return place(problems, text, threads)
        except NoGpuError as error:
            raise NoGpuError(f"{error}; {_elsewhere()}") from None
        except NotHereError as error:
            how = "skipjack tune --build-only builds for it without running"
            raise NotHereError(f"{error}; {how}") from None
    if text is None or text == "cpu":
        device = replace(cpu.detect(), units=threads or 1)
        _check_buildable(problems, device)
        return device
    check_threads(text, threads)
    return describe(text)


def _elsewhere() -> str:
    """What to do where the right GPU is missing."""
    if find_gpus():
        return "leave --threads out, and add --device gpu"
    return (
        f"tune --build-only with --device {' or '.join(EXAMPLE_GPUS)} builds it without running; "
        "skipjack doctor says why no GPU is found"
    )


def _check_buildable(problems: Sequence[Problem], device: Device) -> None:
    for problem in problems:
        if for_gpus_alone(problem, device):
            raise UsageError(
                f"{refusal_of_all(problem, device)}; name one with --device, as "
                f"{' or '.join(EXAMPLE_GPUS)}"
            )


def without_stranded(placed: Mapping[Placement, list[Entry]]) -> dict[Placement, list[Entry]]:
    """The same; in a list, a problem that needs a GPU is not applicable where there is none."""
    if sum(map(len, placed.values())) < 2:
        return dict(placed)
    found: dict[Placement, list[Entry]] = {}
    for at, entries in placed.items():
        kept = found.setdefault(at, [])
        for entry in entries:
            try:
                if isinstance(entry, Problem):
                    place([entry], at.device, at.threads)
                kept.append(entry)
            except NoGpuError as error:
                kept.append(NotApplicable(str(entry), str(error)))
            except UsageError:
                kept.append(entry)  # choose_device says what is wrong with it
    return found


def check_problem(problem: Problem, device: Device, limits: Limits, solver: str | None) -> None:
    """Refuse a problem that a device cannot compute, or whose arrays it has no room for."""
    check_memory(problem, device.memory_bytes, limits.memory_share)
    solver_for(problem, device, solver)


def check_trace(trace: Path | None) -> None:
    """Refuse a trace that could not be written in the end."""
    if trace and not trace.absolute().parent.is_dir():
        raise UsageError(f"cannot write {trace}: there is no directory {trace.absolute().parent}")
