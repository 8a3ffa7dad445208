"""Recorded results of autotuners: the T4 format, and Kernel Tuner's cache files.

T4 is the JSON format in which autotuners publish every config of a search space with what was
measured (https://github.com/odgaard/TuningSchema). Files may be compressed by gzip. Values are
times or other costs: lower is better.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skipjack.core import Config, Status, Trial
from skipjack.errors import MalformedError, MissingFileError, StorageError
from skipjack.reading import described, parse_json, quoted, read_plain
from skipjack.storage import atomic_write

MOST_BYTES = 1 << 30
"""Size of an uncompressed file; spaces of 100,000 configs with all samples have about 200 MB."""

_CORRECT = "correct"
_STATUS = {
    "compile": Status.BUILD_ERROR,
    "runtime": Status.CRASH,
    "timeout": Status.TIMEOUT,
    "correctness": Status.WRONG,
    "constraints": Status.INFEASIBLE,
}
_INVALIDITY = {
    **{status: word for word, status in _STATUS.items()},
    Status.BUILD_TIMEOUT: "compile",
    Status.BUILD_CRASH: "compile",
    Status.INVALID: "correctness",
}
"""The word for a failure; ``runtime`` for the others."""
_CACHE_ERRORS = {
    "InvalidConfig": Status.INFEASIBLE,
    "CompilationFailedConfig": Status.BUILD_ERROR,
    "RuntimeFailedConfig": Status.CRASH,
}
_UNITS = {
    **{f"{prefix}seconds": unit for prefix, unit in (("", "s"), ("micro", "us"), ("nano", "ns"))},
    **dict.fromkeys(("milliseconds", "miliseconds"), "ms"),  # files have the misspelling
}
_RATES = ("/s", "flop", "throughput", "bandwidth", "per_second")


@dataclass(frozen=True, slots=True)
class TuningResults:
    """The results of a search space: each config once, with a value or a failure."""

    trials: tuple[Trial, ...]
    objective: str = "time"
    unit: str = ""
    """The unit of the values; empty if the file does not say it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_tuning_results(path: Path) -> TuningResults:
    """Read a T4 file or a cache file of Kernel Tuner, whichever it is."""
    where, text = path.name, _text(path)
    if '"cache"' in text[:100_000] and '"tune_params_keys"' in text[:100_000]:
        return _read_cache(text, where)
    document = _object(parse_json(text, where, most=MOST_BYTES), where)
    if "results" not in document:
        raise MalformedError(
            f"{where}: this is neither a T4 file, which has a list of results, nor a cache file "
            "of Kernel Tuner"
        )
    return _read_t4(document, where)


def write_t4(path: Path, results: TuningResults) -> None:
    """Write a T4 file, compressed if the name ends in ``.gz``."""
    entries = [_entry(trial, results) for trial in results.trials]
    document = {
        "results": entries,
        "schema_version": "1.0.0",
        "metadata": {"timeunit": results.unit, **results.metadata},
    }
    _write(path, json.dumps(document))


def write_kernel_tuner_cache(path: Path, results: TuningResults) -> None:
    """Write a cache file for Kernel Tuner's simulation mode.

    Its kernel is called ``replay``, its problem size is 1 and its parameters are in the order of
    the first config. Values are in order, as its strategies take adjacent ones for similar ones.
    """
    names = list(results.trials[0].config) if results.trials else []
    values: dict[str, dict[Any, None]] = {name: {} for name in names}
    cache = {}
    for trial in results.trials:
        config = dict(trial.config)
        for name in names:
            values[name][config[name]] = None
        cache[",".join(str(config[name]) for name in names)] = _cached(trial, results.objective)
    document = {
        "device_name": "recorded",
        "kernel_name": "replay",
        "problem_size": [1, 1, 1],
        "tune_params_keys": names,
        "tune_params": {name: _in_order(found) for name, found in values.items()},
        "objective": results.objective,
        "cache": cache,
    }
    _write(path, json.dumps(document, indent=""))


# The T4 format


def _read_t4(document: dict[str, Any], where: str) -> TuningResults:
    metadata = _object(document.get("metadata", {}), where, "metadata")
    entries = document["results"]
    if not isinstance(entries, list) or not entries:
        raise _malformed(where, "results", "expected a list with at least one entry")
    rows = [_object(entry, where, f"results[{at}]") for at, entry in enumerate(entries)]
    objective = _objective(rows, where)
    unit = ""
    trials = []
    for at, row in enumerate(rows):
        trial, said = _trial(row, objective, where, f"results[{at}]")
        unit = unit or said
        trials.append(trial)
    _check_configs(trials, where, "results")
    timeunit = metadata.get("timeunit")
    unit = unit or (timeunit if isinstance(timeunit, str) else "")
    rest = {key: value for key, value in metadata.items() if key != "timeunit"}
    return TuningResults(tuple(trials), objective, _UNITS.get(unit, unit), rest)


def _objective(rows: Sequence[Mapping[str, Any]], where: str) -> str:
    """The first objective, which must be the same in all entries."""
    found = ""
    for at, row in enumerate(rows):
        listed = row.get("objectives", ["time"])
        if not isinstance(listed, list) or not listed or not isinstance(listed[0], str):
            place = f"results[{at}].objectives"
            raise _malformed(where, place, f"expected a list of names, found {described(listed)}")
        if found and listed[0] != found:
            raise _malformed(
                where,
                f"results[{at}].objectives",
                f"expected {quoted(found)} as in earlier entries, found {described(listed[0])}",
            )
        found = listed[0]
    _check_objective(found, where)
    return found


def _trial(row: Mapping[str, Any], objective: str, where: str, place: str) -> tuple[Trial, str]:
    """The trial of an entry, and its unit if it says one."""
    if "configuration" not in row:
        raise _malformed(where, place, "the field configuration is missing")
    config = _config(row["configuration"], where, f"{place}.configuration")
    validity = row.get("invalidity")
    if validity not in (_CORRECT, *_STATUS):
        words = ", ".join((_CORRECT, *_STATUS))
        raise _malformed(
            where, f"{place}.invalidity", f"expected one of {words}, found {described(validity)}"
        )
    if validity != _CORRECT:
        return Trial(config, _STATUS[validity], reason=_reason(row, validity)), ""
    measurements = row.get("measurements")
    if not isinstance(measurements, list):
        raise _malformed(where, place, "the list of measurements is missing")
    for at, one in enumerate(measurements):
        measured = _object(one, where, f"{place}.measurements[{at}]")
        if measured.get("name") == objective:
            value = _positive(measured.get("value"), where, f"{place}.measurements[{at}].value")
            unit = measured.get("unit", "")
            return _measured(config, value, objective), unit if isinstance(unit, str) else ""
    raise _malformed(where, place, f"it is correct, but has no measurement named {objective}")


def _reason(row: Mapping[str, Any], validity: str) -> str:
    said = row.get("reason", "")
    return said if isinstance(said, str) and said else f"recorded as a failure: {validity}"


def _entry(trial: Trial, results: TuningResults) -> dict[str, Any]:
    ok = trial.ok
    validity = _CORRECT if ok else _INVALIDITY.get(trial.status, "runtime")
    measurement = {"name": results.objective, "value": trial.value, "unit": results.unit}
    entry: dict[str, Any] = {
        "configuration": dict(trial.config),
        "times": {},
        "invalidity": validity,
        "correctness": int(validity not in ("correctness",)),
        "measurements": [measurement] if ok else [],
        "objectives": [results.objective],
    }
    if not ok and trial.reason:
        entry["reason"] = trial.reason
    return entry


# Kernel Tuner's cache files


def _read_cache(text: str, where: str) -> TuningResults:
    closed = text.rstrip()
    if not closed.endswith(("}\n}", "}}}", "} }", "}}")):  # a search that was stopped
        closed = closed.removesuffix(",") + "}\n}"
    document = _object(parse_json(closed, where, most=MOST_BYTES), where)
    names = document.get("tune_params_keys")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _malformed(where, "tune_params_keys", "expected a list of names")
    objective = document.get("objective", "time")
    if not isinstance(objective, str):
        raise _malformed(
            where, "objective", f"expected the name of one, found {described(objective)}"
        )
    _check_objective(objective, where)
    cache = _object(document.get("cache"), where, "cache")
    if not cache:
        raise _malformed(where, "cache", "expected at least one entry")
    trials = []
    for key, row in cache.items():
        place = f"cache.{quoted(key)}"
        row = _object(row, where, place)
        missing = [name for name in names if name not in row]
        if missing:
            raise _malformed(where, place, f"the parameter {quoted(missing[0])} is missing")
        config = _config({name: row[name] for name in names}, where, place)
        error = row.get("__error__", row.get(objective))
        if isinstance(error, str) and error in _CACHE_ERRORS:
            trials.append(Trial(config, _CACHE_ERRORS[error], reason=f"recorded as {error}"))
            continue
        value = _positive(row.get(objective), where, f"{place}.{quoted(objective)}")
        trials.append(_measured(config, value, objective))
    _check_configs(trials, where, "cache")
    return TuningResults(tuple(trials), objective, "ms" if objective == "time" else "")


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Numbers by size, texts as they came."""
    listed = list(values)
    return listed if any(isinstance(value, str) for value in listed) else sorted(listed)


def _cached(trial: Trial, objective: str) -> dict[str, Any]:
    row: dict[str, Any] = dict(trial.config)
    if trial.ok:
        row[objective] = trial.value
        row["times"] = [trial.value]
    else:
        words = {status: word for word, status in _CACHE_ERRORS.items()}
        row[objective] = row["__error__"] = words.get(trial.status, "RuntimeFailedConfig")
    times = ("compile_time", "verification_time", "benchmark_time", "strategy_time")
    row |= dict.fromkeys((*times, "framework_time"), 0.0)
    row["timestamp"] = "1970-01-01 00:00:00+00:00"
    return row


# Values


def _check_objective(objective: str, where: str) -> None:
    if any(word in objective.lower() for word in _RATES):
        raise MalformedError(
            f"{where}: the objective {quoted(objective)} is a rate; only values of which lower is "
            "better, such as times, can be read"
        )


def _measured(config: Config, value: float, objective: str) -> Trial:
    return Trial(config, value=value, metrics={objective: value})


def _config(found: object, where: str, place: str) -> Config:
    settings = _object(found, where, place)
    for name, value in settings.items():
        if not isinstance(value, bool | int | float | str):
            raise _malformed(
                where,
                f"{place}.{quoted(name)}",
                f"expected a number, a text or true or false, found {described(value)}",
            )
    if not settings:
        raise _malformed(where, place, "it has no parameters")
    return Config(settings)


def _check_configs(trials: Sequence[Trial], where: str, place: str) -> None:
    """All configs have the same parameters, and none comes twice."""
    names = set(trials[0].config)
    seen: dict[str, int] = {}
    for at, trial in enumerate(trials):
        if set(trial.config) != names:
            odd = min(set(trial.config) ^ names)
            has = "has" if odd in trial.config else "lacks"
            raise _malformed(
                where, f"{place}[{at}]", f"it {has} the parameter {quoted(odd)}, unlike the first"
            )
        first = seen.setdefault(trial.config.key, at)
        if first != at:
            raise _malformed(where, f"{place}[{at}]", f"it has the same config as {place}[{first}]")


def _positive(value: object, where: str, place: str) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise _malformed(where, place, f"expected a number above 0, found {described(value)}")
    return float(value)  # type: ignore[arg-type]


def _object(value: object, where: str, place: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed(where, place, f"expected an object, found {described(value)}")
    return value


def _malformed(where: str, place: str, sentence: str) -> MalformedError:
    return MalformedError(": ".join(part for part in (where, place, sentence) if part))


# Files


def _text(path: Path) -> str:
    try:
        data = read_plain(path)
        if data[:2] == b"\x1f\x8b":
            data = _unpacked(data, path)
    except FileNotFoundError:
        raise MissingFileError(f"there is no file {path}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"{path.name}: byte {error.start} is not UTF-8") from None


def _unpacked(data: bytes, path: Path) -> bytes:
    machine = zlib.decompressobj(wbits=31)
    try:
        unpacked = machine.decompress(data, MOST_BYTES + 1)
    except zlib.error:
        raise MalformedError(f"{path.name}: the compressed data are damaged") from None
    if len(unpacked) > MOST_BYTES:
        raise MalformedError(f"{path.name}: it has more than {MOST_BYTES} bytes when unpacked")
    if not machine.eof:
        raise MalformedError(f"{path.name}: the compressed data end too early")
    return unpacked


def _write(path: Path, text: str) -> None:
    data = text.encode()
    atomic_write(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
