"""How fast an import is: lines a second into a new SQLite store, and where the time goes.

``python bench/import_lines.py --lines 1000000 --form distinct``. Forms: ``distinct`` (every line
another problem, behind the prefix of a log), ``log`` (500 commands again and again, each time with
another time before it), ``keys``, ``find-db``, ``batchnorm`` and ``open`` (no direction, so three
problems a line). Each step is timed by itself: making the file is not counted, reading splits and
decodes, parsing is what is left of an import that stores nothing. Shares are of the time on the
processor, which is less than the time on the clock where the machine is shared.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from skipjack.fleet.problem_import import ImportOptions, import_file
from skipjack.fleet.problem_import.line_reader import line_blocks
from skipjack.fleet.store import AddedProblems, NewProblem, Problems, open_store

_COMMAND = (
    "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n {n} -c {c} -H {h} -W {w} "
    "-k {k} -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1"
)


class NoProblems(Problems):
    """Takes everything and keeps nothing."""

    def __init__(self) -> None:
        pass

    def add(
        self,
        problems: Iterable[NewProblem],
        tag: str,
        *,
        recurrent: bool = False,
        source: str = "",
        model: str = "",
        tag_only: bool = False,
        in_order: bool = False,
    ) -> AddedProblems:
        """Say that all were new."""
        del tag, recurrent, source, model, tag_only, in_order
        count = sum(1 for _ in problems)
        return AddedProblems(count, 0, count)


def _sizes(number: int) -> dict[str, int]:
    """Another set of sizes for each number, below 100 million."""
    return {
        "n": 1 + number % 100,
        "c": 1 + number // 100 % 100,
        "h": 8 + number // 10_000 % 100,
        "w": 14,
        "k": 1 + number // 1_000_000,
    }


def _distinct(number: int) -> str:
    return f"{_COMMAND.format(**_sizes(number))} -F 1 -t 1"


def _log(number: int) -> str:
    return f"2026-11-{number % 28 + 1:02d} 12:{number:09d} {_distinct(number % 500)}"


def _open(number: int) -> str:
    return f"{_COMMAND.format(**_sizes(number))} -t 1"


def _key(number: int) -> str:
    return "conv2d:n{n}c{c}h{h}w{w}k{k}y3x3p1q1:f32:NCHW:fwd".format(**_sizes(number))


def _find_db(number: int) -> str:
    key = "{c}-{h}-{w}-3x3-{k}-{h}-{w}-{n}-1x1-1x1-1x1-0-NCHW-FP32-F".format(**_sizes(number))
    return f"{key}=ConvBinWinogradRxSf3x2:0.18192,0,miopenConvolutionFwdAlgoWinograd"


def _batchnorm(number: int) -> str:
    return "./bin/MIOpenDriver bnorm -n {n} -c {c} -H {h} -W {k} -m 1 --forw 1".format(
        **_sizes(number)
    )


FORMS: dict[str, Callable[[int], str]] = {
    "distinct": _distinct,
    "log": _log,
    "open": _open,
    "keys": _key,
    "find-db": _find_db,
    "batchnorm": _batchnorm,
}


def make_file(path: Path, form: str, lines: int) -> None:
    """So many lines of a form."""
    make = FORMS[form]
    with path.open("w") as file:
        file.writelines(f"{make(number)}\n" for number in range(lines))


def measure(form: str, lines: int) -> dict[str, object]:
    """Seconds of the whole, and the share of each step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.txt"
        make_file(path, form, lines)
        started = time.process_time()
        with path.open("rb") as file:
            read = sum(len(block) for block, _ in line_blocks(file))
        reading = time.process_time() - started
        options = ImportOptions(tag="bench")
        import_file(NoProblems(), path, options)
        parsing = time.process_time() - started - 2 * reading
        with open_store(f"sqlite:///{folder}/fleet.sqlite") as store:
            started, began = time.process_time(), time.perf_counter()
            report = import_file(store.problems, path, options)
            whole, seconds = time.process_time() - started, time.perf_counter() - began
    assert read == lines == report.lines == report.understood
    steps = {"read": reading, "parse": parsing, "store": whole - reading - parsing}
    return {
        "form": form,
        "lines": lines,
        "problems": report.imported,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(whole, 2),
        "lines_per_second": round(lines / seconds),
        "share": {name: round(spent / whole, 2) for name, spent in steps.items()},
    }


def main() -> None:
    """Print one JSON line for each form."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--form", choices=[*FORMS, "all"], default="distinct")
    asked = parser.parse_args()
    for form in FORMS if asked.form == "all" else (asked.form,):
        print(json.dumps(measure(form, asked.lines)), flush=True)


if __name__ == "__main__":
    main()
