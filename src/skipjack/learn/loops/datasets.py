"""Sets of problems to learn from and to be judged on, drawn from ranges of sizes, on disk.

A dataset is a JSON file with the keys of its problems, shuffled and split by a seed::

    {"format": "skipjack-loop-dataset", "version": 1, "name": "mm64_256_16", "kind": "mm",
     "seed": 0, "train": ["matmul:112x208x256:f32", ...], "test": [...]}

It is known by its name once it is in the folder ``loops/datasets`` of the user directory.
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

from skipjack.core.dtypes import CPU_DTYPES, DTYPES, listed
from skipjack.core.operation import ProgramOperation
from skipjack.core.problem import Problem
from skipjack.errors import MalformedError, ProblemError, StorageError, UsageError
from skipjack.learn.loops.looptune_file import parse_benchmark
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
"""What LoopTune calls a benchmark: a file in the folder of its dataset."""
_RANGE = re.compile(r"(\d{1,9})(?::(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class LoopDataset:
    """Problems by their keys; none is in both parts."""

    name: str
    kind: str
    seed: int
    train: tuple[str, ...]
    test: tuple[str, ...]

    def keys(self, split: str = "all") -> tuple[str, ...]:
        """The keys of a part of it."""
        _check_split(split)
        return {"train": self.train, "test": self.test, "all": (*self.train, *self.test)}[split]

    def problems(self, split: str = "all") -> list[Problem]:
        """The problems of a part of it."""
        return list(map(_problem, self.keys(split)))


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """What a dataset is drawn from."""

    kind: str
    dim_a: str
    """Ranges of the sizes of the first array, joined by commas: ``64:256:16,64:256:16``."""
    dim_b: str = ""
    operations: tuple[str, ...] = ()
    """For kinds of several operations: which; empty for a few of each."""
    dtype: str = "f32"
    seed: int = 0
    train_share: float = 0.9
    limit: int | None = None
    """At most so many problems, drawn by the seed."""


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise UsageError(f"there is no split {split!r}; choose from {', '.join(SPLITS)}")


@functools.lru_cache(maxsize=1 << 14)
def _problem(key: str) -> Problem:
    """Parsed once: environments by the dozen read the same dataset of thousands."""
    return parse(key)


# Ranges


def parse_range(text: str) -> range:
    """``64:256:16`` as 64, 80, ... 256: the last is in it; ``64`` is 64 alone."""
    match = _RANGE.fullmatch(text.strip())
    if not match:
        raise UsageError(
            f"{text!r} is not a range of sizes; write first:last:step, as 64:256:16, or one size"
        )
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if first < 1 or last < first or step < 1:
        raise UsageError(
            f"the range {text} is empty; the first size is at least 1 and at most the last, and "
            "the step is at least 1"
        )
    return range(first, last + 1, step)


def _ranges(text: str, option: str, what: Sequence[str]) -> list[range]:
    parts = text.split(",") if text else []
    if len(parts) != len(what):
        raise UsageError(
            f"{option} takes {len(what)} ranges joined by commas ({', '.join(what)}), "
            f"not {len(parts)}"
        )
    return [parse_range(part) for part in parts]


# Kinds


@dataclass(frozen=True, slots=True)
class _Kind:
    a: tuple[str, ...]
    b: tuple[str, ...]
    keys: Callable[[str, Sequence[int], Sequence[int]], Iterator[str]]
    """Keys without dtype of an operation, from sizes of both arrays."""
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
"""What datasets are made of, by name."""


def make_dataset(name: str, request: DatasetRequest) -> LoopDataset:
    """All problems of some ranges, shuffled and split by the seed.

    A product is in it where the columns of A are as many as the rows of B. Of n problems,
    ceil(share * (n - 1)) are for training, as in LoopTune.
    """
    _check_name(name)
    if request.kind not in KINDS:
        raise UsageError(
            f"there is no kind {request.kind!r} of datasets; choose from {', '.join(KINDS)}"
        )
    if not 0.0 <= request.train_share <= 1.0:
        raise UsageError(f"the share for training is {request.train_share}; give 0 to 1")
    if request.limit is not None and request.limit < 1:
        raise UsageError(f"a dataset of at most {request.limit} problems is empty; give 1 or more")
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
        raise UsageError(f"a dataset of kind {request.kind} has no --dim-b; leave it out")
    b = _ranges(request.dim_b, "--dim-b", kind.b)
    # Ranges are counted before they are walked through: they may be of any length.
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
            "no problem has sizes of these ranges; columns of A must be rows of B, and filters "
            "not larger than images"
        )
    return [parse(key).key for key in found]


def _check_count(count: int) -> None:
    if count > _MOST:
        raise UsageError(f"these ranges have {count} problems; at most {_MOST} are allowed")


def _check_playable(operation: str, dtype: str) -> None:
    if not is_known(operation):
        raise UsageError(f"unknown operation {operation!r} for a dataset")
    if isinstance(get(operation), ProgramOperation):
        raise UsageError(f"{operation} is not a single loop nest, so it cannot be in a dataset")
    if dtype in DTYPES and dtype not in CPU_DTYPES:
        raise UsageError(f"datasets are of problems in {listed(CPU_DTYPES)}, not in {dtype}")


# Files


def dataset_folder() -> Path:
    """Where datasets are known by their names."""
    return load_settings().user_dir / "loops" / "datasets"


def write_dataset(dataset: LoopDataset, target: Path | None = None) -> list[Path]:
    """Write it into the folder of datasets, and to another file where one is named."""
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
    """What its file holds."""
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
    """The dataset of this name or in this file; `UsageError` if there is none."""
    places = [Path(text), Path(f"{text}.json")]
    if _NAME.fullmatch(text):
        places.append(dataset_folder() / f"{text}.json")
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        known = ", ".join(dataset_names()) or "none yet"
        raise UsageError(
            f"there is no dataset {text!r} (known are: {known}); make it with "
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
            f"{where} is a dataset of another version, and this Skipjack reads {VERSION}; make it "
            "again with `skipjack loops dataset`"
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
        raise MalformedError(f"{where}: {min(twice)} is in both parts, train and test")
    return LoopDataset(
        record["name"].text(), record["kind"].text(), record["seed"].integer(), *parts
    )


def dataset_names() -> list[str]:
    """Datasets that are known by their names, sorted."""
    folder = dataset_folder()
    return sorted(path.stem for path in folder.glob("*.json") if path.is_file())


def find_problems(text: str, split: str = "all") -> list[Problem]:
    """What a text names: a dataset, ``dataset:shape`` for one of its problems, or a problem.

    A benchmark of LoopTune, ``dataset/mm64_80_96.txt``, is ``dataset:64x80x96``, or what the file
    says if there is one.
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
        part = "" if split == "all" else f" in the part {split}"
        raise UsageError(f"dataset {text} has no problems{part}")
    return found


def _of_dataset(name: str, text: str) -> Problem:
    """The problem of a dataset that a text names."""
    try:
        dataset = read_dataset(name)
    except UsageError as error:
        raise UsageError(f"{error}; no operation has this name either") from None
    keys = dataset.keys()
    wanted = _BETWEEN_SIZES.sub("x", text)
    found = [key for key in keys if wanted in _spellings(key, dataset.kind)]
    if len(found) > 1:
        some = " or ".join(f"{name}:{':'.join(key.split(':')[:2])}" for key in found[:2])
        raise UsageError(f"dataset {name} has {len(found)} problems {text}; write which, as {some}")
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
    """A key, its shape with attributes, and it without what follows the shape."""
    operation, shape, *_ = key.split(":")
    return key, shape, f"{operation}:{shape}", f"{kind}{shape}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a dataset; use letters, digits, dots, dashes and "
            "underscores, as mm64_256_16"
        )
    if is_known(name):
        raise UsageError(f"{name} is an operation; choose another name for the dataset")
