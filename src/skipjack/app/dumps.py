"""``skipjack tune DIR``: what of a dump is to be tuned on this machine, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.errors import SkipjackError, UsageError
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.app.problem_lists import Placement
    from skipjack.core.device import Device
    from skipjack.interop import Entry
    from skipjack.runtime.dumps import ValuedProblem
    from skipjack.settings import Settings


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """Where a dump is tuned, and how."""

    place: Placement
    solver: str | None = None
    retune: bool = False


def are_dumps(texts: Sequence[str], *others: object) -> bool:
    """Whether these arguments are directories; `UsageError` if only some are.

    `others` are options that say nothing about dumps, None where they are not given.
    """
    folders = [text for text in texts if _is_folder(text)]
    for text in texts:
        is_path = text.startswith((".", "/", "~")) and not {" ", ":"} & set(text)
        if is_path and text not in folders:
            raise UsageError(
                f"there is no directory {text}; name that of a dump, or a problem as matmul:8x8x8"
            )
    if folders and len(folders) < len(texts):
        raise UsageError(f"{folders[0]} is a dump, which is tuned by itself; leave the others out")
    if folders and any(one is not None for one in others):
        raise UsageError(
            f"{folders[0]} is a dump, whose problems have shapes, dtypes, layouts and directions: "
            "leave -f, --shapes, --dtype, --layout and --direction out"
        )
    return bool(folders)


def _is_folder(text: str) -> bool:
    try:
        return bool(text) and Path(text).is_dir()  # the path of an empty text is this directory
    except (OSError, ValueError):  # a key may be longer than any path
        return False


def read_dumps(
    folders: Sequence[str],
    settings: Settings,
    request: DumpRequest,
    build_only: bool,
    say: Callable[[str], None],
) -> tuple[dict[Placement, list[Entry]], bool]:
    """What is to be tuned of dumps, by device, and whether something of them was left out.

    The device with the most to save is first, and so is the most valuable problem of each. `say` is
    told what is left out and why.
    """
    from skipjack.runtime.dumps import DumpContents, most_valuable_first, read_dump

    read = [read_dump(Path(folder)) for folder in folders]
    contents = DumpContents(
        tuple(one for each in read for one in each.problems),
        tuple(said for each in read for said in each.damaged),
    )
    sorting = _Sorting(settings, request, build_only)
    for valued in most_valuable_first(contents, settings):
        sorting.take(valued)
    left_out = [*contents.damaged, *sorting.left_out()]
    placed = sorting.placed()
    for sentence in left_out:
        say(sentence)
    asked = [entry for entries in placed.values() for entry in entries]
    first = f", {asked[0]} first" if asked else ""
    say(f"{numbered(len(asked), 'problem')} to tune{first}; known before: {sorting.tuned}")
    return placed, bool(left_out)


class _Sorting:
    """Problems on their way to devices."""

    def __init__(self, settings: Settings, request: DumpRequest, build_only: bool) -> None:
        self._settings, self._request, self._build_only = settings, request, build_only
        self._found: dict[Placement, dict[Entry, float]] = {}
        self._elsewhere: dict[str, int] = {}
        """How many problems are for devices that are not here, by what to say of them."""
        self._useless: list[str] = []
        self.tuned = 0
        """Problems that a bank has, or whose search came to an end."""

    def take(self, valued: ValuedProblem) -> None:
        """Decide about a problem."""
        from skipjack.app.placing import check_problem, choose_device
        from skipjack.core.protocol import deployed_protocol
        from skipjack.runtime.dumps import is_tuned
        from skipjack.tuning import Limits

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
        """What is to be tuned."""
        by_worth = sorted(self._found.items(), key=lambda pair: -sum(pair[1].values()))
        return {
            place: sorted(entries, key=lambda entry: -entries[entry]) for place, entries in by_worth
        }

    def left_out(self) -> list[str]:
        """What is not, and why; one sentence about all that is for one other device."""
        elsewhere = [
            f"{numbered(count, 'problem')} left out: {said}"
            for said, count in self._elsewhere.items()
        ]
        return [*self._useless, *elsewhere]


def _other_class(valued: ValuedProblem, here: Device) -> str:
    dumped = valued.dumped
    return (
        f"the dump is of device class {dumped.device_class}, and {here.name} of this machine is "
        f"{here.class_key}; tune it on a machine of that class, or add --device {here.name} to "
        "tune it for this one"
    )
