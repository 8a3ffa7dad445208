"""Values of find-dbs, in the current and the legacy format, and their shortest possible times."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple

from skipjack.core import excerpt
from skipjack.errors import UsageError
from skipjack.interop.miopen.keys import FindKey
from skipjack.interop.miopen.text_db import DatabaseRecord, RecordItem
from skipjack.operations import Axis

# Values of find-dbs: the time of a solver for a problem, in the current and the legacy format.
#
# ::
#
#     current   solver:time,workspace,algorithm
#     legacy    algorithm:solver,time,workspace,algorithm or library,key of its kernels
#
# Legacy items have the name of an algorithm as their id. Times are in milliseconds. Solvers and
# algorithms are not checked against a list, so that new ones are kept.

Family = Literal["GEMM", "Direct", "FFT", "Winograd", "ImplicitGEMM"]
FAMILIES: tuple[Family, ...] = ("GEMM", "Direct", "FFT", "Winograd", "ImplicitGEMM")
UNUSED = "not used"
"""The last field of legacy values without a key of kernels."""
_UNUSED = ("", UNUSED, "<unused>")
_STEMS = {"fwd": "Fwd", "bwd": "BwdData", "wrw": "BwdWeights"}
_LETTERS = {"F": "fwd", "B": "bwd", "W": "wrw"}
# Files may have lines of any length, so all of these patterns take linear time.
_WORD = re.compile(r"\w+", re.ASCII)
_ALGORITHM = re.compile(r"miopen\w*?(?P<stem>Fwd|BwdData|BwdWeights)Algo(?P<family>\w)", re.ASCII)
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|nan|inf)"
_WHOLE = r"[+-]?\d{1,999}"
_CURRENT = re.compile(rf"([^:]+):({_NUMBER}),({_WHOLE}),(.+)\Z", re.ASCII)
_TIME = re.compile(_NUMBER, re.ASCII)
_WORKSPACE = re.compile(_WHOLE, re.ASCII)


@dataclass(frozen=True, slots=True)
class FindResultLine:
    """The result of one solver."""

    solver: str
    time_ms: float
    workspace_bytes: int
    algorithm: str
    """Includes the direction: ``miopenConvolutionFwdAlgoDirect``."""


class FindText(NamedTuple):
    """The fields of an item as text. A tuple, for speed: files have a million items."""

    solver: str
    time: str
    workspace: str
    algorithm: str
    library: str = ""
    """Only in legacy values: the library, usually the algorithm again."""
    kernels: str | None = None
    """Only in legacy values: the key of the kernels, or None without the field."""
    legacy: bool = False

    @property
    def result(self) -> FindResultLine:
        """The fields as numbers."""
        return FindResultLine(self.solver, float(self.time), int(self.workspace), self.algorithm)

    @property
    def says_more(self) -> bool:
        """Whether the current format cannot represent all fields."""
        return self.legacy and not (
            self.library in ("", self.algorithm) and (self.kernels or "") in _UNUSED
        )


def is_algorithm(name: str) -> bool:
    """Whether the id of an item is an algorithm, so that the solver is in the values."""
    return name.startswith("miopen") and "Algo" in name


def find_text(item: RecordItem) -> FindText | None:
    """The fields of an item in either format; None if it has neither format."""
    return fields_of(item.text)


def fields_of(text: str) -> FindText | None:
    """The fields of an item from its text, which is faster than `find_text`."""
    text = text.rstrip("\r")  # in files with mixed line ends
    legacy = text.startswith("miopen")
    if legacy and (fields := _legacy_fields(text)):
        return fields
    match = _CURRENT.match(text)
    if match is None or (legacy and is_algorithm(match[1])):
        return None
    solver, time, workspace, algorithm = match.groups()
    return FindText(solver, time, workspace, algorithm)


def _legacy_fields(text: str) -> FindText | None:
    """Fields of a legacy item; names of solvers (``<3, 6>``) and the last field may have commas."""
    algorithm, colon, rest = text.partition(":")
    if not (colon and is_algorithm(algorithm)) or "\n" in rest:
        return None
    parts = rest.split(",")
    for at in range(1, len(parts) - 2):
        if _TIME.fullmatch(parts[at]) and _WORKSPACE.fullmatch(parts[at + 1]):
            solver = ",".join(parts[:at])
            if not solver:
                continue
            kernels = ",".join(parts[at + 3 :]) if len(parts) > at + 3 else None
            time, workspace, library = parts[at : at + 3]
            return FindText(solver, time, workspace, algorithm, library, kernels, True)
    return None


def find_results(record: DatabaseRecord) -> tuple[FindResultLine, ...]:
    """The results of a record in its order; `UsageError` if an item is not a result."""
    return tuple([_result(text, record) for text in record.item_texts])


def _result(text: str, record: DatabaseRecord) -> FindResultLine:
    fields = fields_of(text)
    if fields is None:
        raise UsageError(
            f"{excerpt(text)!r} in the record of {excerpt(record.key)!r} is not a find result; "
            "write one like ConvAsm1x1U:0.0371,0,miopenConvolutionFwdAlgoDirect"
        )
    return fields.result


def find_item(line: FindResultLine) -> RecordItem:
    """An item in the current format; times have six digits, as those of MIOpen."""
    return RecordItem(line.solver, f"{line.time_ms:.6g},{line.workspace_bytes},{line.algorithm}")


def legacy_item(line: FindResultLine, library: str = "", kernels: str = UNUSED) -> RecordItem:
    """An item in the legacy format."""
    values = (line.solver, f"{line.time_ms:.6g}", str(line.workspace_bytes))
    return RecordItem(line.algorithm, ",".join((*values, library or line.algorithm, kernels)))


def current_of(fields: FindText) -> RecordItem:
    """The same item in the current format; the text of numbers is kept."""
    return RecordItem(fields.solver, f"{fields.time},{fields.workspace},{fields.algorithm}")


def legacy_of(fields: FindText) -> RecordItem:
    """The same item in the legacy format; the text of numbers is kept."""
    numbers = f"{fields.solver},{fields.time},{fields.workspace}"
    kernels = UNUSED if fields.kernels is None else fields.kernels
    return RecordItem(fields.algorithm, f"{numbers},{fields.library or fields.algorithm},{kernels}")


def algorithm_name(direction: str, family: str) -> str:
    """``fwd`` (or ``F``) and ``Direct`` as ``miopenConvolutionFwdAlgoDirect``."""
    stem = _STEMS.get(_LETTERS.get(direction, direction))
    if stem is None:
        raise UsageError(f"unknown direction {direction!r}; choose fwd, bwd or wrw")
    if family not in FAMILIES:
        raise UsageError(
            f"unknown family of algorithms {family!r}; choose from {', '.join(FAMILIES)}"
        )
    return f"miopenConvolution{stem}Algo{family}"


def algorithm_parts(algorithm: str) -> tuple[str, str] | None:
    """Direction and family from the name of an algorithm; None if it has another form."""
    match = _ALGORITHM.match(algorithm)
    if match is None or not _WORD.fullmatch(algorithm):
        return None
    direction = next(name for name, stem in _STEMS.items() if stem == match["stem"])
    return direction, algorithm[match.start("family") :]


# Times that are too short for any device.
#
# The bounds assume rates far above the peak of every GPU, so that a flagged time is certainly
# wrong: unavoidable arithmetic at `_RATES`, bytes of the result at `_BYTES_PER_S`, and at least
# `SHORTEST_MS` for a kernel on a GPU, which has to be launched. The unavoidable arithmetic depends
# on the algorithm: Winograd needs at least one multiplication for each element of the result and
# channel; for FFT there is no bound.

SHORTEST_MS = 1e-4
SHORTEST_CALL_MS = 1e-7
"""On a CPU, where a kernel is a call that may take nanoseconds: less than any clock tick."""
_RATES = {"FP64": 5e14, "FP32": 2e15}
"""Operations per second by type."""
_RATE = 2e16
"""Operations per second of types with at most 16 bits."""
_BYTES_PER_S = 1e14
_BYTES = {"FP64": 8, "INT64": 8, "FP32": 4, "INT32": 4, "FP16": 2, "BF16": 2}
_MOST_TAPS = 4096
"""Maximum number of counted taps of an axis, as a file may have any; fewer lower the bound."""
_EXACT = ("GEMM", "Direct", "ImplicitGEMM")
"""Families that perform every multiplication."""


class TimeBounds:
    """The shortest possible time of a problem, by family of algorithms."""

    def __init__(self, key: FindKey, shortest_ms: float = SHORTEST_MS) -> None:
        self._key = key
        self._shortest_ms = shortest_ms
        self._least: dict[str, float] = {}
        taps = prod(key.filter) * prod((key.second if key.direction == "F" else key.first)[1:])
        work = 2.0 * key.n * key.first[0] * key.second[0] * taps
        least_s = max(work / _RATES.get(key.type, _RATE), _moved_s(key))
        self.harmless_ms = max(shortest_ms, least_s * 1e3)
        """Longer times are plausible for every family; a fast test."""

    def least_ms(self, family: str) -> float:
        """The time in milliseconds below which a result is wrong."""
        if family not in self._least:
            work = _operations(self._key, family) / _RATES.get(self._key.type, _RATE)
            self._least[family] = max(self._shortest_ms, work * 1e3, _moved_s(self._key) * 1e3)
        return self._least[family]


def _operations(key: FindKey, family: str) -> float:
    axes = key.axes
    channels = key.first[0] * key.second[0] / key.groups
    if family in _EXACT:
        return 2.0 * key.n * channels * prod(_pairs(axis) for axis in axes)
    if family == "Winograd":
        pixels = prod(min(axis.result, axis.image) for axis in axes)
        return 2.0 * key.n * channels * pixels
    return 0.0


def _pairs(axis: Axis) -> int:
    """Number of taps over all pixels that use the image and not padding."""
    total = 0
    for tap in range(min(axis.filter, _MOST_TAPS)):
        start = tap * axis.dilation - axis.pad
        first = max(0, -(start // axis.stride))
        last = (axis.image - 1 - start) // axis.stride
        total += max(0, min(last, axis.result - 1) - first + 1)
    return total


def _moved_s(key: FindKey) -> float:
    """The shortest time for writing the result, in seconds."""
    size = _BYTES.get(key.type, 1)
    if key.direction == "W":
        elements = key.first[0] * key.second[0] // key.groups * prod(key.filter)
    else:
        elements = key.n * prod(key.second)
    return size * elements / _BYTES_PER_S
