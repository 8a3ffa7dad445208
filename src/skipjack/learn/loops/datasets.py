"""Datasets: files with problems for training and evaluation, made from ranges of sizes.

A dataset is a JSON file with the keys of its problems, shuffled and split with a seed::

    {"format": "skipjack-loop-dataset", "version": 1, "name": "mm64_256_16", "kind": "mm",
     "seed": 0, "train": ["matmul:112x208x256:f32", ...], "test": [...]}

Datasets in the folder ``loops/datasets`` of the user directory are found by name.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from pathlib import Path

import numpy as np

from skipjack.core import CPU_DTYPES, DTYPES, Problem, ProgramOperation, listed
from skipjack.errors import MalformedError, ProblemError, StorageError, UsageError
from skipjack.learn.loops.problems import parse_benchmark
from skipjack.operations import get, is_known, parse
from skipjack.reading import read_json, read_plain
from skipjack.settings import load_settings
from skipjack.storage import atomic_write

FORMAT, VERSION = "skipjack-loop-dataset", 1
SPLITS = ("train", "test", "all")
_MOST = 100_000
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
_BETWEEN_SIZES = re.compile(r"(?<=\d)_(?=\d)")
_BENCHMARK = re.compile(r"(.+)/(mm\d+_\d+_\d+)(?:\.txt)?", re.ASCII)
"""A benchmark of LoopTune: a file in the folder of its dataset."""
_RANGE = re.compile(r"(\d{1,9})(?::(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class LoopDataset:
    """Problems by key; no problem is in both splits."""

    name: str
    kind: str
    seed: int
    train: tuple[str, ...]
    test: tuple[str, ...]

    def keys(self, split: str = "all") -> tuple[str, ...]:
        """The keys of a split."""
        _check_split(split)
        return {"train": self.train, "test": self.test, "all": (*self.train, *self.test)}[split]

    def problems(self, split: str = "all") -> list[Problem]:
        """The problems of a split."""
        return list(map(_problem, self.keys(split)))


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """The options from which a dataset is made."""

    kind: str
    dim_a: str
    """Ranges for the sizes of the first array, separated by commas: ``64:256:16,64:256:16``."""
    dim_b: str = ""
    operations: tuple[str, ...] = ()
    """The operations, for kinds that have several; empty for the default ones."""
    dtype: str = "f32"
    seed: int = 0
    train_share: float = 0.9
    limit: int | None = None
    """The most problems, drawn with the seed."""


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise UsageError(f"unknown split {split!r}; choose from {', '.join(SPLITS)}")


@functools.lru_cache(maxsize=1 << 14)
def _problem(key: str) -> Problem:
    """Parse a problem; cached because many environments read the same large dataset."""
    return parse(key)


# Ranges


def parse_range(text: str) -> range:
    """``64:256:16`` is 64, 80, ... 256, including the last; ``64`` is only 64."""
    match = _RANGE.fullmatch(text.strip())
    if not match:
        raise UsageError(
            f"{text!r} is not a range of sizes; write FIRST:LAST:STEP, such as 64:256:16, or a size"
        )
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if first < 1 or last < first or step < 1:
        raise UsageError(
            f"the range {text} is empty; the first size must be at least 1 and at most the last, "
            "and the step at least 1"
        )
    return range(first, last + 1, step)


def _ranges(text: str, option: str, what: Sequence[str]) -> list[range]:
    parts = text.split(",") if text else []
    if len(parts) != len(what):
        raise UsageError(
            f"{option} takes {len(what)} ranges separated by commas ({', '.join(what)}), "
            f"not {len(parts)}"
        )
    return [parse_range(part) for part in parts]


# Kinds


@dataclass(frozen=True, slots=True)
class _Kind:
    a: tuple[str, ...]
    b: tuple[str, ...]
    keys: Callable[[str, Sequence[int], Sequence[int]], Iterator[str]]
    """Makes keys of an operation, without the dtype, from the sizes of both arrays."""
    operations: tuple[str, ...]


def _products(operation: str, a: Sequence[int], b: Sequence[int]) -> Iterator[str]:
    if a[1] == b[0]:
        yield f"{operation}:{a[0]}x{b[1]}x{a[1]}"


def _convolutions(operation: str, a: Sequence[int], b: Sequence[int]) -> Iterator[str]:
    (n, c, h, w), (k, y, x) = a, b
    if y <= h and x <= w:
        yield f"{operation}:n{n}c{c}h{h}w{w}k{k}y{y}x{x}p{y // 2}q{x // 2}"


def _maps(operation: str, a: Sequence[int], _: Sequence[int]) -> Iterator[str]:
    yield f"{operation}:{a[0]}x{a[1]}"


def _reductions(operation: str, a: Sequence[int], _: Sequence[int]) -> Iterator[str]:
    for axis in (0, 1):
        yield f"{operation}:{a[0]}x{a[1]}/axis={axis}"


_ROWS = ("rows", "columns")
KINDS: Mapping[str, _Kind] = {
    "mm": _Kind(_ROWS, _ROWS, _products, ("matmul",)),
    "conv": _Kind(
        ("images", "channels", "height", "width"),
        ("channels of the result", "height", "width"),
        _convolutions,
        ("conv2d",),
    ),
    "elementwise": _Kind(_ROWS, (), _maps, ("add", "mul", "relu", "tanh")),
    "broadcast": _Kind(_ROWS, (), _maps, ("bias", "scale")),
    "reduce": _Kind(_ROWS, (), _reductions, ("sum", "mean", "max", "sumsq")),
}
"""Kinds of datasets by name."""


def make_dataset(name: str, request: DatasetRequest) -> LoopDataset:
    """Make a dataset of all problems in the ranges, shuffled and split with the seed.

    Products need as many columns of A as rows of B. Of n problems, ceil(share * (n - 1)) are for
    training, as in LoopTune.
    """
    _check_name(name)
    if request.kind not in KINDS:
        raise UsageError(
            f"unknown kind {request.kind!r} of datasets; choose from {', '.join(KINDS)}"
        )
    if not 0.0 <= request.train_share <= 1.0:
        raise UsageError(f"the share for training is {request.train_share}; it must be from 0 to 1")
    if request.limit is not None and request.limit < 1:
        raise UsageError(f"the limit of problems is {request.limit}; it must be at least 1")
    keys = _all_keys(request)
    order = np.random.default_rng(request.seed).permutation(len(keys))
    shuffled = [keys[at] for at in order[: request.limit]]
    train = ceil(request.train_share * (len(shuffled) - 1)) if request.train_share < 1 else None
    first, rest = shuffled[:train], shuffled[train:] if train is not None else []
    return LoopDataset(name, request.kind, request.seed, tuple(first), tuple(rest))


def _all_keys(request: DatasetRequest) -> list[str]:
    kind = KINDS[request.kind]
    operations = list(dict.fromkeys(request.operations or kind.operations))
    for operation in operations:
        _check_playable(operation, request.dtype)
    a = _ranges(request.dim_a, "--dim-a", kind.a)
    if not kind.b and request.dim_b:
        raise UsageError(f"datasets of kind {request.kind} have no --dim-b; leave it out")
    b = _ranges(request.dim_b, "--dim-b", kind.b)
    # Count before enumerating, because ranges may be of any length.
    for sizes in (*a, *b):
        _check_count(len(sizes))
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]]
    if request.kind == "mm":
        inner = [size for size in a[1] if size in b[0]]
        _check_count(len(a[0]) * len(inner) * len(b[1]) * len(operations))
        pairs = (((m, k), (k, n)) for m, k, n in product(a[0], inner, b[1]))
    else:
        _check_count(prod(map(len, (*a, *b))) * len(operations))
        pairs = product(product(*a), product(*b))
    every = list(pairs)
    found = [
        f"{key}:{request.dtype}"
        for operation in operations
        for sizes, others in every
        for key in kind.keys(operation, sizes, others)
    ]
    if not found:
        raise UsageError(
            "these ranges contain no problem; A must have as many columns as B has rows, and "
            "filters must not be larger than images"
        )
    return [parse(key).key for key in found]


def _check_count(count: int) -> None:
    if count > _MOST:
        raise UsageError(f"these ranges have {count} problems; at most {_MOST} are possible")


def _check_playable(operation: str, dtype: str) -> None:
    if not is_known(operation):
        raise UsageError(f"unknown operation {operation!r} for a dataset")
    if isinstance(get(operation), ProgramOperation):
        raise UsageError(f"{operation} is not a single loop nest, so it cannot be in a dataset")
    if dtype in DTYPES and dtype not in CPU_DTYPES:
        raise UsageError(f"datasets can have problems in {listed(CPU_DTYPES)}, not in {dtype}")


# Files


def dataset_folder() -> Path:
    """The folder in which datasets are found by name."""
    return load_settings().user_dir / "loops" / "datasets"


def write_dataset(dataset: LoopDataset, target: Path | None = None) -> list[Path]:
    """Write a dataset to the folder of datasets, and to `target` if it is given."""
    own = dataset_folder() / f"{dataset.name}.json"
    paths = [own] if target is None else [target, own]
    text = dataset_text(dataset)
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write the dataset {path}: {error.strerror}") from None
        atomic_write(path, text.encode())
    return paths


def dataset_text(dataset: LoopDataset) -> str:
    """The content of a dataset's file."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "name": dataset.name,
        "kind": dataset.kind,
        "seed": dataset.seed,
        "train": dataset.train,
        "test": dataset.test,
    }
    return json.dumps(record, indent=1) + "\n"


def read_dataset(text: str) -> LoopDataset:
    """Read the dataset of this name or in this file; `UsageError` if there is none."""
    places = [Path(text), Path(f"{text}.json")]
    if _NAME.fullmatch(text):
        places.append(dataset_folder() / f"{text}.json")
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        known = ", ".join(dataset_names()) or "none yet"
        raise UsageError(
            f"unknown dataset {text!r} (known datasets: {known}); make it with "
            "`skipjack loops dataset`"
        )
    try:
        content = read_plain(path)
    except OSError as error:
        raise StorageError(f"cannot read the dataset {path}: {error.strerror}") from None
    return _parsed(content, str(path))


def _parsed(content: bytes, where: str) -> LoopDataset:
    record = read_json(content, where)
    kind = record.get("format")
    if kind is None or kind.text() != FORMAT:
        raise MalformedError(f"{where} is not a dataset; `skipjack loops dataset` makes one")
    if record["version"].integer() != VERSION:
        raise MalformedError(
            f"{where} is a dataset of another version than {VERSION}, which this Skipjack reads; "
            "make it again with `skipjack loops dataset`"
        )
    parts = []
    for split in ("train", "test"):
        keys = tuple(each.text() for each in record[split].elements())
        for key in keys:
            try:
                _problem(key)
            except ProblemError as error:
                raise MalformedError(f"{where}: {error}") from None
        parts.append(keys)
    if twice := set(parts[0]) & set(parts[1]):
        raise MalformedError(f"{where}: {min(twice)} is in both splits, train and test")
    return LoopDataset(
        record["name"].text(), record["kind"].text(), record["seed"].integer(), *parts
    )


def dataset_names() -> list[str]:
    """The names of datasets in the folder of datasets, sorted."""
    folder = dataset_folder()
    return sorted(path.stem for path in folder.glob("*.json") if path.is_file())


def find_problems(text: str, split: str = "all") -> list[Problem]:
    """The problems of a dataset, the problem ``dataset:shape`` of one, or a problem by key.

    A benchmark of LoopTune, ``dataset/mm64_80_96.txt``, is the problem of that file if it exists,
    otherwise ``dataset:64x80x96``.
    """
    _check_split(split)
    if text.endswith(".txt") and Path(text).is_file():
        return [_read_benchmark(Path(text))]
    benchmark = _BENCHMARK.fullmatch(text)
    if benchmark:
        text = f"{benchmark[1]}:{benchmark[2]}"
    head, _, rest = text.partition(":")
    if is_known(head) and rest:
        return [parse(text)]
    if rest:
        return [_of_dataset(head, rest)]
    found = read_dataset(text).problems(split)
    if not found:
        part = "" if split == "all" else f" in the split {split}"
        raise UsageError(f"dataset {text} has no problems{part}")
    return found


def _of_dataset(name: str, text: str) -> Problem:
    """The problem of a dataset with this shape."""
    try:
        dataset = read_dataset(name)
    except UsageError as error:
        raise UsageError(f"{error}; there is no operation of this name either") from None
    keys = dataset.keys()
    wanted = _BETWEEN_SIZES.sub("x", text)
    found = [key for key in keys if wanted in _spellings(key, dataset.kind)]
    if len(found) > 1:
        some = " or ".join(f"{name}:{':'.join(key.split(':')[:2])}" for key in found[:2])
        raise UsageError(
            f"dataset {name} has {len(found)} problems {text}; choose one, such as {some}"
        )
    if not found:
        some = ", ".join(key.split(":")[1] for key in keys[:3])
        raise UsageError(
            f"dataset {name} has no problem {text}; its {len(keys)} problems begin with {some}"
            if some
            else f"dataset {name} has no problems"
        )
    return _problem(found[0])


def _read_benchmark(path: Path) -> Problem:
    try:
        content = read_plain(path).decode(errors="replace")
    except OSError as error:
        raise StorageError(f"cannot read the benchmark {path}: {error.strerror}") from None
    return parse_benchmark(content, str(path))


def _spellings(key: str, kind: str) -> tuple[str, ...]:
    """The ways to write a problem of a dataset."""
    operation, shape, *_ = key.split(":")
    return key, shape, f"{operation}:{shape}", f"{kind}{shape}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid name of a dataset; use letters, digits, dots, dashes and "
            "underscores, as in mm64_256_16"
        )
    if is_known(name):
        raise UsageError(f"{name} is the name of an operation; choose another name for the dataset")
