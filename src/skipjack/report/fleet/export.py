"""What an export wrote."""

from __future__ import annotations

from skipjack.app import Exported, ExportedFile
from skipjack.reading import numbered
from skipjack.report.numbers import size_text
from skipjack.report.render import print_json, say

_NOUNS = {"devices": "device", "problems": "problem", "entries": "entry", "kernels": "kernel"}


def render_export(done: Exported | ExportedFile, json: bool) -> None:
    """Each file with what is in it, and what was left out."""
    if isinstance(done, ExportedFile):
        _render_file(done, json)
        return
    if json:
        print_json("export find-db", _fields(done))
        return
    for note in done.files:
        counts = ", ".join(numbered(count, _NOUNS[key]) for key, count in note.counts.items())
        copied = f" (measured on {note.alias_of})" if note.alias_of else ""
        say(f"{done.directory / note.name}: {counts}{copied}")
    if done.unfinished:
        say(f"  left out: {numbered(done.unfinished, 'job')} not done")
    if done.not_applicable:
        say(f"  left out: {numbered(done.not_applicable, 'job')} that no solver can do")
    for remark in done.remarks:
        say(f"  {remark}")


def _fields(done: Exported) -> dict[str, object]:
    return {
        "kind": done.contents.kind,
        "directory": str(done.directory),
        "files": [note.to_json() for note in done.files],
        "left_out": {
            **done.contents.counts,
            "not_applicable": done.not_applicable,
            "unfinished": done.unfinished,
        },
        "remarks": list(done.remarks),
    }


def _render_file(done: ExportedFile, json: bool) -> None:
    if json:
        record = {"file": str(done.file), "kernels": done.kernels, "bytes": done.bytes}
        print_json("export find-db", {**record, "remarks": list(done.remarks)})
        return
    say(f"{numbered(done.kernels, 'kernel')} in {done.file}, {size_text(done.bytes)}")
    for remark in done.remarks:
        say(f"  {remark}")
