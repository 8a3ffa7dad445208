"""Bank entries for people, and the table of ranked solvers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from skipjack.bank import FIND, PERF, BankEntry, Replaced, ReplacementReason, entry_device_names
from skipjack.core import settings_text
from skipjack.report import screen
from skipjack.report.numbers import (
    gain_text,
    library_cell,
    library_column,
    library_name,
    size_text,
    time_text,
)
from skipjack.report.screen import TableColumn, print_rows, table
from skipjack.runtime.local_kernels import why_stale

# The table of ranked solvers, from records of ``find`` and of the bank.

_NUMBERS = ("time", "spread", "x first", "workspace", "trials")
_OK = "ok"


def ranking_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table of solver records, fastest first; failed solvers have their reason."""
    cells: list[tuple[Text | str, ...]] = []
    for number, row in enumerate(rows, 1):
        if row.get("status") != _OK:
            failed = Text(f"{row.get('status')}: {row.get('reason')}", style="red")
            cells.append(("", str(row.get("solver")), *["-"] * len(_NUMBERS), failed))
            continue
        place = 1 if row.get("tie") else number
        cells.append((f"{place}", str(row.get("solver")), *_cells(row, number), _config(row)))
    return table(
        [
            *(TableColumn("rank", right=True), "solver"),
            *(TableColumn(name, right=True) for name in _NUMBERS),
            TableColumn("config", folded=True),
        ],
        cells,
    )


def _cells(row: Mapping[str, Any], number: int) -> list[str]:
    spread, behind = row.get("spread"), row.get("behind") or {}
    gain = gain_text(behind.get("ratio"), behind.get("low"), behind.get("high"))
    return [
        time_text(row.get("time_ns")),
        f"{100 * spread:.1f} %" if spread and row.get("samples") != 1 else "-",
        "1" if number == 1 else f"{gain} tie" if row.get("tie") else gain,
        size_text(row.get("workspace_bytes") or 0),
        str(row.get("trials") or "-"),
    ]


def _config(row: Mapping[str, Any]) -> Text:
    settings = settings_text(row.get("config", {}))
    reason = row.get("reason")
    return Text(f"{settings or '-'}{f' ({reason})' if reason else ''}")


# Bank entries as tables.

_MOST_FOLDED = 500
"""Most rows of a table whose last column is wrapped: rich takes a millisecond per row."""

_DEFAULT = "default"
_REPLACED_BECAUSE: dict[str, str] = {
    ReplacementReason.SLOWER: "slower, side by side",
    ReplacementReason.FAILED: "it failed",
    ReplacementReason.OUTDATED: "its solver no longer generates it",
    ReplacementReason.AGAIN: "timed again",
    ReplacementReason.STALE: "timed again after a change of compiler or driver",
}


def config_text(entry: BankEntry) -> str:
    """The config in one line; a dash for libraries, which have none."""
    return settings_text(entry.config) or "-"


def print_entries(entries: Sequence[BankEntry]) -> None:
    """A row for each problem, device and deployment, with the same gains as in ``tune``."""
    console = screen.out()
    if not entries:
        console.print("The bank is empty; skipjack tune fills it.")
        return
    listed = _once(entries)
    head, rows = _columns(listed)
    if len(rows) > _MOST_FOLDED:
        screen.print_long_table(head, rows, _to_the_right(head))
    else:
        right = _to_the_right(head)
        columns = [TableColumn(name, right=name in right) for name in head[:-1]]
        columns.append(TableColumn(head[-1], folded=True))
        print_rows(columns, rows, framed=True, console=console)
    _print_stale(sum(bool(why_stale(entry)) for entry, _ in listed), console)


def _once(entries: Sequence[BankEntry]) -> list[tuple[BankEntry, str]]:
    """One entry for each problem, device, deployment and pinned settings, with its kinds."""
    kinds: dict[tuple[str, ...], dict[str, BankEntry]] = {}
    for entry in entries:
        own = entry.kind if entry.evidence.pinned else ""
        place = entry.problem, entry.device, entry.deployed, own
        kinds.setdefault(place, {})[entry.kind] = entry
    return [
        (found.get(PERF) or next(iter(found.values())), ", ".join(sorted(found, reverse=True)))
        for found in kinds.values()
    ]


def _columns(listed: Sequence[tuple[BankEntry, str]]) -> tuple[list[str], list[list[str]]]:
    """The headings and the rows; a ranking without a tuning has no default and no gain."""
    entries = [entry for entry, _ in listed]
    names = entry_device_names(entries, by_class=True)
    library = library_column(entry.vendor for entry in entries)
    competitor = library_column(_library_gain(entry)[0] for entry in entries)
    rows = []
    for entry, kinds in listed:
        name, gain = _library_gain(entry)
        rows.append(
            {
                "problem": entry.problem,
                "device": names[entry.device],
                "kind": kinds,
                "deployed": "" if entry.usual else entry.deployed,
                "solver": entry.solver,
                "time": time_text(entry.time_ns),
                "default": "-" if entry.kind == FIND else time_text(entry.default_ns),
                library: library_cell(time_text(entry.vendor_ns), entry.vendor, library),
                f"x {competitor}": library_cell(gain, name, competitor) if name else "-",
                "x default": _default_gain(entry),
                "stale": "stale" if why_stale(entry) else "",
                "config": config_text(entry),
            }
        )
    unused = {name for name in ("deployed", "stale") if not any(row[name] for row in rows)}
    head = [name for name in rows[0] if name not in unused]
    return head, [[row[name] for name in head] for row in rows]


def _to_the_right(head: Sequence[str]) -> set[str]:
    return set(head) - {"problem", "device", "kind", "deployed", "solver", "stale", "config"}


def _library_gain(entry: BankEntry) -> tuple[str, str]:
    """The fastest library and the gain over it; both empty if there is none, or if it won."""
    name, text = _baseline(entry)
    if not name and "vendor" in entry.speedup:  # of an older version
        name, text = entry.vendor, _gain_over(entry, "vendor")
    return (name, text) if entry.config and name != _DEFAULT else ("", "")


def _default_gain(entry: BankEntry) -> str:
    return _gain_over(entry, _DEFAULT) if entry.config and entry.kind != FIND else "-"


def _gain_over(entry: BankEntry, name: str) -> str:
    gain = entry.speedup.get(name)
    return gain_text(gain["ratio"], gain["low"], gain["high"]) if gain else "-"


def _print_stale(count: int, console: Console) -> None:
    if count:
        which = "1 entry is" if count == 1 else f"{count} entries are"
        why = "the compiler or driver has changed"
        said = f"{which} stale, as {why}; skipjack bank verify times those of this machine again"
        console.print(Text(said), soft_wrap=True)


def _baseline(entry: BankEntry) -> tuple[str, str]:
    """The baseline and the gain over it; empty in entries of older versions."""
    found = entry.evidence.baseline
    if not found:
        return "", ""
    return found.over, gain_text(found.ratio, found.low, found.high)


def print_entry(entry: BankEntry, others: Sequence[BankEntry] = ()) -> None:
    """Everything about an entry, and one line for each other entry of its problem."""
    if entry.kind == FIND:
        _print_ranking(entry)
        return
    console = screen.out()
    lines = [
        ("problem", entry.problem),
        ("device", f"{entry.device_name} ({entry.device})"),
        ("timed on", entry.evidence.model or "unknown"),
        ("deployed", entry.deployed),
        ("solver", f"{entry.solver}, version {entry.solver_version}"),
        ("config", config_text(entry)),
        ("time", time_text(entry.time_ns)),
        ("default", time_text(entry.default_ns)),
        (library_name(entry.vendor) if entry.vendor else "library", time_text(entry.vendor_ns)),
    ]
    for name in sorted(entry.speedup):
        competitor = library_name(entry.vendor) if name == "vendor" else name
        lines.append((f"gain over {competitor}", _gain_over(entry, name)))
    evidence = entry.evidence
    name, text = _baseline(entry)
    if text and name not in (_DEFAULT, entry.vendor):
        lines.append((f"gain over {library_name(name)}", text))
    if called := evidence.as_called:
        text = gain_text(called.ratio, called.low, called.high)
        lines.append(("gain as called", f"{text} over {library_name(entry.vendor)}, from Python"))
    lines += [
        ("samples", f"{evidence.samples} kept, {evidence.set_aside} discarded"),
        ("test", f"alpha {evidence.alpha}, smallest effect {evidence.min_effect}"),
        ("study", evidence.study or "-"),
        ("since", entry.created),
    ]
    if evidence.pinned:
        pins = " ".join(f"{name}={text}" for name, text in evidence.pinned.items())
        lines.append(("pinned", f"{pins}, for lookups that pin the same"))
    if evidence.masked:
        lines.append(("masked", evidence.masked))
    if stale := why_stale(entry):
        lines.append(("stale", f"{stale}; skipjack bank verify {entry.problem} times it again"))
    if evidence.replaced:
        lines.append(("replaced", _replaced_text(evidence.replaced)))
    lines += [("tie", settings_text(tie)) for tie in evidence.ties if not isinstance(tie, str)]
    lines += [
        ("also known", f"{one.solver} {config_text(one)}, {time_text(one.time_ns)}")
        for one in others
    ]
    screen.print_fields(lines, console)
    console.print()


def _replaced_text(replaced: Replaced) -> str:
    """The entry that this one replaced, and why."""
    text = f"{replaced.solver or '-'} {settings_text(replaced.config)}".rstrip()
    return f"{text} ({_REPLACED_BECAUSE.get(replaced.met, '-')})"


def _print_ranking(entry: BankEntry) -> None:
    """The ranked solvers of a find, in the same form as ``skipjack find`` prints them."""
    console = screen.out()
    where = f"{entry.device_name} ({entry.device})"
    model = entry.evidence.model
    timed = f", timed on {model}" if model else ""
    console.print(Text(f"solvers of {entry.problem} on {where}{timed}, since {entry.created}"))
    screen.print_table(ranking_table(entry.evidence.ranking), console)
    console.print()
