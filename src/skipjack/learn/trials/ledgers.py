"""The trials of ledgers, by problem and device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from skipjack.core import Device, deployment_of
from skipjack.errors import MissingFileError, ProblemError, UsageError
from skipjack.learn.trials.measured import (
    MeasuredConfig,
    ProblemTrials,
    on_one_scale,
    solver_trials,
)
from skipjack.ledger import FILE_NAME, Ledger, StudyRecord
from skipjack.operations import parse
from skipjack.solvers import find_solver, is_known
from skipjack.storage import MAGIC, copy_database

_OBJECTIVE = "time_ns:min"


def is_ledger(path: Path) -> bool:
    """Whether a file is a database, as ledgers are."""
    if path.is_file():
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    return False


@contextmanager
def opened_ledger(path: Path) -> Iterator[Ledger]:
    """The ledger in a file, which may have any name, or in a user directory."""
    file = path / FILE_NAME if path.is_dir() else path
    if not file.exists():
        raise MissingFileError(f"there is no ledger at {file}; give a ledger or a user directory")
    if not is_ledger(file):
        raise UsageError(f"{file} is not a ledger; give a ledger.sqlite or a user directory")
    with ExitStack() as stack:
        directory = file.parent
        if file.name != FILE_NAME:
            directory = Path(stack.enter_context(TemporaryDirectory()))
            copy = copy_database(file, directory)
            for each in list(directory.glob(f"{copy.name}*")):
                each.rename(directory / each.name.replace(copy.name, FILE_NAME))
        yield stack.enter_context(Ledger.read(directory))


def read_trials(
    paths: Sequence[Path],
    *,
    device_kind: str | None = None,
    operations: Collection[str] | None = None,
    deployed: str | None = None,
) -> list[ProblemTrials]:
    """What ledgers know of each problem on each class of devices.

    Left out are studies of other objectives, of solvers that are unknown here or of another
    version, and of operations that are unknown here. Of several deployments of a problem, such as
    hot and cold caches, the one with the most trials is taken, unless one is named.

    Args:
        paths: ledgers, or user directories with one.
        device_kind: only devices of this kind, ``cpu`` or ``cuda``.
        operations: only these.
        deployed: only this deployment, as ``eager/hot``.
    """
    devices: dict[str, Device] = {}
    found: defaultdict[tuple[str, str], _Deployments] = defaultdict(_Deployments)
    for path in paths:
        with opened_ledger(path) as ledger:
            devices.update((one.class_key, one) for one in ledger.devices())
            for study in ledger.studies():
                device = devices.get(study.device)
                if device is None or device_kind not in (None, device.kind):
                    continue
                way = deployment_of(study.protocol, study.device)
                if deployed in (None, way) and _is_usable(study):
                    run = (str(path), study.searcher, study.seed)
                    measured = solver_trials(study.solver, ledger.trials(study.id))
                    found[study.problem, study.device].add(way, run, measured)
    return list(_problems(found, devices, operations))


Run = tuple[str, str, int]
"""Ledger, searcher and seed: the studies of a tuning, one for each solver, are of one run."""


class _Deployments:
    """What is known of a problem on a device, by deployment and run."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[Run, list[MeasuredConfig]]] = {}

    def add(self, deployed: str, run: Run, measured: Iterable[MeasuredConfig]) -> None:
        self._runs.setdefault(deployed, {}).setdefault(run, []).extend(measured)

    def most(self) -> tuple[MeasuredConfig, ...]:
        """The results of the deployment with the most trials."""
        runs = max(self._runs.values(), key=lambda one: sum(map(len, one.values())))
        return on_one_scale(list(runs.values()))


def _is_usable(study: StudyRecord) -> bool:
    if study.objective != _OBJECTIVE or not study.tells or not is_known(study.solver):
        return False
    return getattr(find_solver(study.solver), "version", None) == study.solver_version


def _problems(
    found: Mapping[tuple[str, str], _Deployments],
    devices: Mapping[str, Device],
    operations: Collection[str] | None,
) -> Iterator[ProblemTrials]:
    for (key, device), ways in sorted(found.items()):
        with suppress(ProblemError):
            problem = parse(key)
            if operations is None or problem.operation in operations:
                yield ProblemTrials(problem, devices[device], ways.most())
