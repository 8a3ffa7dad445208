"""``skipjack tune DIR``: the problems of a dump to tune on this machine, and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.errors import SkipjackError, UsageError
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.app.problems import Placement
    from skipjack.core import Device
    from skipjack.interop import Entry
    from skipjack.runtime.dumps import ValuedProblem
    from skipjack.settings import Settings


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """Where and how to tune a dump."""

    place: Placement
    solver: str | None = None
    retune: bool = False


def are_dumps(texts: Sequence[str], *others: object) -> bool:
    """Whether these arguments are directories; `UsageError` if only some are.

    `others` are options that do not apply to dumps; None if they are not given.
    """
    folders = [text for text in texts if _is_folder(text)]
    for text in texts:
        is_path = text.startswith((".", "/", "~")) and not {" ", ":"} & set(text)
        if is_path and text not in folders:
            raise UsageError(
                f"there is no directory {text}; name a dump, or a problem such as matmul:8x8x8"
            )
    if folders and len(folders) < len(texts):
        raise UsageError(f"{folders[0]} is a dump; name dumps only, or problems only")
    if folders and any(one is not None for one in others):
        raise UsageError(
            f"{folders[0]} is a dump, whose problems have shapes, dtypes, layouts and directions: "
            "leave -f, --shapes, --dtype, --layout and --direction out"
        )
    return bool(folders)


def _is_folder(text: str) -> bool:
    try:
        return bool(text) and Path(text).is_dir()  # Path("") is the current directory
    except (OSError, ValueError):  # a key may be longer than any path
        return False


def read_dumps(
    folders: Sequence[str],
    settings: Settings,
    request: DumpRequest,
    build_only: bool,
    say: Callable[[str], None],
) -> tuple[dict[Placement, list[Entry]], bool]:
    """The problems of dumps to tune, by device, and whether some were left out.

    Devices and problems with the most time to save come first. `say` gets a sentence about
    everything that is left out.
    """
    from skipjack.runtime.dumps import DumpContents, most_valuable_first, read_dump

    read = [read_dump(Path(folder)) for folder in folders]
    contents = DumpContents(
        tuple(one for each in read for one in each.problems),
        tuple(said for each in read for said in each.damaged),
    )
    sorting = _DumpPlan(settings, request, build_only)
    for valued in most_valuable_first(contents, settings):
        sorting.take(valued)
    left_out = [*contents.damaged, *sorting.left_out()]
    placed = sorting.placed()
    for sentence in left_out:
        say(sentence)
    requested = [entry for entries in placed.values() for entry in entries]
    first = f", {requested[0]} first" if requested else ""
    say(f"{numbered(len(requested), 'problem')} to tune{first}; {sorting.tuned} tuned before")
    return placed, bool(left_out)


class _DumpPlan:
    """Sorts the problems of dumps by device, and counts those that are left out."""

    def __init__(self, settings: Settings, request: DumpRequest, build_only: bool) -> None:
        self._settings, self._request, self._build_only = settings, request, build_only
        self._found: dict[Placement, dict[Entry, float]] = {}
        self._elsewhere: dict[str, int] = {}
        """How many problems are for other devices, by the sentence about them."""
        self._useless: list[str] = []
        self.tuned = 0
        """Problems that a bank has, or whose search is complete."""

    def take(self, valued: ValuedProblem) -> None:
        """Assign a problem to its device, or leave it out."""
        from skipjack.app.problems import check_problem, choose_device
        from skipjack.core import deployed_protocol
        from skipjack.runtime.dumps import is_tuned
        from skipjack.tuning.study import Limits

        place, problem = self._place(valued), valued.problem
        build_only = self._build_only
        try:
            here = choose_device(place.device, place.threads, [problem], build_only=build_only)
        except UsageError as error:
            self._is_elsewhere(str(error))
            return
        named = place is self._request.place
        if not (named or build_only or here.class_key == valued.dumped.device_class):
            self._is_elsewhere(_other_class(valued, here))
            return
        try:
            check_problem(problem, here, Limits.of(self._settings), self._request.solver)
            way = deployed_protocol(here, place.deployed, place.caches).deployed
        except SkipjackError as error:
            self._useless.append(f"{valued.folder}: {error}")
            return
        everything = self._request.retune or build_only
        if not everything and is_tuned(problem, here, self._settings, way):
            self.tuned += 1
            return
        entries = self._found.setdefault(place, {})
        entries[problem] = entries.get(problem, 0.0) + valued.saved_ns

    def _place(self, valued: ValuedProblem) -> Placement:
        chosen = self._request.place
        if chosen.device is not None or chosen.threads is not None:
            return chosen
        return chosen._replace(device=valued.dumped.device)

    def _is_elsewhere(self, said: str) -> None:
        self._elsewhere[said] = self._elsewhere.get(said, 0) + 1

    def placed(self) -> dict[Placement, list[Entry]]:
        """The problems to tune."""
        by_worth = sorted(self._found.items(), key=lambda pair: -sum(pair[1].values()))
        return {
            place: sorted(entries, key=lambda entry: -entries[entry]) for place, entries in by_worth
        }

    def left_out(self) -> list[str]:
        """A sentence for each reason why problems are left out."""
        elsewhere = [
            f"{numbered(count, 'problem')} left out: {said}"
            for said, count in self._elsewhere.items()
        ]
        return [*self._useless, *elsewhere]


def _other_class(valued: ValuedProblem, here: Device) -> str:
    dumped = valued.dumped
    return (
        f"the dump is of device class {dumped.device_class}, but {here.name} of this machine is "
        f"{here.class_key}; tune it on a machine of that class, or add --device {here.name} to "
        "tune it for this device"
    )
