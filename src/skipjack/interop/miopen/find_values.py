"""Values of find-dbs: what a solver took for a problem, in the current format and the legacy one.

::

    current   solver:time,workspace,algorithm
    legacy    algorithm:solver,time,workspace,algorithm or library,key of its kernels

Legacy items are told by their id, which is the name of an algorithm. Times are milliseconds. There
is no closed list of solvers or algorithms: newer ones pass through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from skipjack.core.problem import shown
from skipjack.errors import UsageError
from skipjack.interop.miopen.records import Item, Record

Family = Literal["GEMM", "Direct", "FFT", "Winograd", "ImplicitGEMM"]
FAMILIES: tuple[Family, ...] = ("GEMM", "Direct", "FFT", "Winograd", "ImplicitGEMM")
UNUSED = "not used"
"""What the last field of legacy values says where there is no key of kernels."""
_UNUSED = ("", UNUSED, "<unused>")
_STEMS = {"fwd": "Fwd", "bwd": "BwdData", "wrw": "BwdWeights"}
_LETTERS = {"F": "fwd", "B": "bwd", "W": "wrw"}
# Files of others may hold lines of any length: each of these takes time in proportion to its text.
_WORD = re.compile(r"\w+", re.ASCII)
_ALGORITHM = re.compile(r"miopen\w*?(?P<stem>Fwd|BwdData|BwdWeights)Algo(?P<family>\w)", re.ASCII)
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|nan|inf)"
_WHOLE = r"[+-]?\d{1,999}"
_CURRENT = re.compile(rf"([^:]+):({_NUMBER}),({_WHOLE}),(.+)\Z", re.ASCII)
_TIME = re.compile(_NUMBER, re.ASCII)
_WORKSPACE = re.compile(_WHOLE, re.ASCII)


@dataclass(frozen=True, slots=True)
class FindResultLine:
    """One solver's result."""

    solver: str
    time_ms: float
    workspace_bytes: int
    algorithm: str
    """With the direction: ``miopenConvolutionFwdAlgoDirect``."""


class FindText(NamedTuple):
    """The fields of an item as they are written: a tuple, as files have a million of them."""

    solver: str
    time: str
    workspace: str
    algorithm: str
    library: str = ""
    """In legacy values only: who computes it, mostly the algorithm once more."""
    kernels: str | None = None
    """In legacy values only: the key of its kernels, where it has the field."""
    legacy: bool = False

    @property
    def result(self) -> FindResultLine:
        """With numbers."""
        return FindResultLine(self.solver, float(self.time), int(self.workspace), self.algorithm)

    @property
    def says_more(self) -> bool:
        """Whether the current format has no place for something that this item says."""
        return self.legacy and not (
            self.library in ("", self.algorithm) and (self.kernels or "") in _UNUSED
        )


def is_algorithm(name: str) -> bool:
    """Whether the id of an item is an algorithm, so that the solver stands among the values."""
    return name.startswith("miopen") and "Algo" in name


def find_text(item: Item) -> FindText | None:
    """The fields of an item of either format; None if it is of neither."""
    return fields_of(item.text)


def fields_of(text: str) -> FindText | None:
    """The fields of an item by its text, which is the fastest way to them."""
    text = text.rstrip("\r")  # of a file whose lines end in two ways
    legacy = text.startswith("miopen")
    if legacy and (fields := _legacy_fields(text)):
        return fields
    match = _CURRENT.match(text)
    if match is None or (legacy and is_algorithm(match[1])):
        return None
    solver, time, workspace, algorithm = match.groups()
    return FindText(solver, time, workspace, algorithm)


def _legacy_fields(text: str) -> FindText | None:
    """A solver's name may have commas in it, as ``<3, 6>`` has; the last field may have any."""
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


def find_results(record: Record) -> tuple[FindResultLine, ...]:
    """The results of a record in its order; `UsageError` for what is none."""
    return tuple([_result(text, record) for text in record.item_texts])


def _result(text: str, record: Record) -> FindResultLine:
    fields = fields_of(text)
    if fields is None:
        raise UsageError(
            f"{shown(text)!r} in the record of {shown(record.key)!r} is no find result; "
            "one is like ConvAsm1x1U:0.0371,0,miopenConvolutionFwdAlgoDirect"
        )
    return fields.result


def find_item(line: FindResultLine) -> Item:
    """An item of the current format; times have six digits, as MIOpen writes them."""
    return Item(line.solver, f"{line.time_ms:.6g},{line.workspace_bytes},{line.algorithm}")


def legacy_item(line: FindResultLine, library: str = "", kernels: str = UNUSED) -> Item:
    """An item of the legacy format."""
    values = (line.solver, f"{line.time_ms:.6g}", str(line.workspace_bytes))
    return Item(line.algorithm, ",".join((*values, library or line.algorithm, kernels)))


def current_of(fields: FindText) -> Item:
    """The same item in the current format, numbers as they are written."""
    return Item(fields.solver, f"{fields.time},{fields.workspace},{fields.algorithm}")


def legacy_of(fields: FindText) -> Item:
    """The same item in the legacy format, numbers as they are written."""
    numbers = f"{fields.solver},{fields.time},{fields.workspace}"
    kernels = UNUSED if fields.kernels is None else fields.kernels
    return Item(fields.algorithm, f"{numbers},{fields.library or fields.algorithm},{kernels}")


def algorithm_name(direction: str, family: str) -> str:
    """``fwd`` (or ``F``) and ``Direct`` as ``miopenConvolutionFwdAlgoDirect``."""
    stem = _STEMS.get(_LETTERS.get(direction, direction))
    if stem is None:
        raise UsageError(f"{direction!r} is no direction; one of fwd, bwd, wrw is")
    if family not in FAMILIES:
        raise UsageError(f"{family!r} is no family of algorithms; one of {', '.join(FAMILIES)} is")
    return f"miopenConvolution{stem}Algo{family}"


def algorithm_parts(algorithm: str) -> tuple[str, str] | None:
    """Direction and family of an algorithm's name; None if it is not built like one."""
    match = _ALGORITHM.match(algorithm)
    if match is None or not _WORD.fullmatch(algorithm):
        return None
    direction = next(name for name, stem in _STEMS.items() if stem == match["stem"])
    return direction, algorithm[match.start("family") :]
