"""Find-dbs and perf-dbs written as JSON lines of ours (format 1), as ``skipjack export`` does.

A line holds a problem with its ranking or its solvers' parameters. The line of the text database
stands beside them, under ``miopen``, where they alone would not give it again: so nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from json.encoder import encode_basestring_ascii as quoted
from math import isfinite
from operator import itemgetter

from skipjack.interop.miopen.find_values import fields_of
from skipjack.interop.miopen.formats import Kind
from skipjack.interop.miopen.json_format import ENTRIES, FIND, FORMAT, KEY, PERF
from skipjack.interop.miopen.keys import parse_find_key
from skipjack.interop.miopen.problem_text import problem_text
from skipjack.interop.miopen.records import Record
from skipjack.interop.miopen.text_db import Form

NS_PER_MS = 1e6
# Filled in by hand, which takes half the time of building objects for a million results first.
_FIND, _PERF = (
    f'{{"format": {FORMAT}, "kind": "{kind}", "problem": %s, "{KEY[kind]}": %s, "device": %s, '
    f'"{ENTRIES[kind]}": [%s], "toolchain": "", "updated": "", "miopen": [%s]'
    for kind in (FIND, PERF)
)
_PARAMS = '{"solver": %s, "params": %s}'
_rank = itemgetter(0, 1)


def json_bytes(kind: Kind, records: Iterable[Record], form: Form, device: str) -> bytes:
    """The content of a file; an unusual form of the text stands in its first line."""
    line_of, name = (_find_line if kind == FIND else _perf_line), quoted(device)
    lines = [line_of(record, name) for record in records]
    if lines and form != Form():
        lines[0] += f', "form": {json.dumps(asdict(form))}'
    return "".join([f"{line}}}\n" for line in lines]).encode()


def _find_line(record: Record, device: str) -> str:
    """Without the brace at its end."""
    results: list[tuple[float, str, str, str]] = []
    for text in record.item_texts:
        fields = fields_of(text)
        if fields is None:
            continue
        solver, algorithm = fields.solver, fields.algorithm
        time_ms, size = float(fields.time), int(fields.workspace)
        time_ns = time_ms * NS_PER_MS
        if isfinite(time_ns):
            entry = (
                f'{{"solver": {quoted(solver)}, "time_ns": {time_ns!r}, '
                f'"workspace_bytes": {size}, "algorithm": {quoted(algorithm)}}}'
            )
            # What has another format never gives the same text again.
            time = "" if fields.legacy else f"{time_ns / NS_PER_MS:.6g}"
            item = f"{solver}:{time},{size},{algorithm}"
            results.append((time_ms, solver, entry, item))
    results.sort(key=_rank)
    ranking = ", ".join([entry for _, _, entry, _ in results])
    again = ";".join([item for _, _, _, item in results])
    key = parse_find_key(record.key)
    problem = (problem_text(key) if key else None) or record.key
    verbatim = "" if again == record.contents else quoted(record.line)
    return _FIND % (quoted(problem), quoted(record.key), device, ranking, verbatim)


def _perf_line(record: Record, device: str) -> str:
    """Without the brace at its end."""
    configs = [_PARAMS % (quoted(item.id), quoted(item.values)) for item in record.items]
    verbatim = "" if ";".join(record.item_texts) == record.contents else quoted(record.line)
    key = quoted(record.key)
    return _PERF % (key, key, device, ", ".join(configs), verbatim)
