"""Bank entries for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from skipjack.bank import FIND, BankEntry, Met, Replaced
from skipjack.bank.evidence import entry_device_names
from skipjack.report import screen
from skipjack.report.library import library_cell, library_column, library_name
from skipjack.report.numbers import gain_text, time_text
from skipjack.report.ranking import ranking_table
from skipjack.runtime import why_stale

_MOST_FOLDED = 500
"""Rows of a table whose last column is folded to the width of the screen: rich takes a millisecond
for each."""

_FARED: dict[str, str] = {
    Met.SLOWER: "slower, side by side",
    Met.FAILED: "it failed",
    Met.OUTDATED: "its solver does not make it any more",
    Met.AGAIN: "timed again",
    Met.STALE: "timed again, the compiler or driver having changed",
}


def config_text(entry: BankEntry) -> str:
    """The config in one line; a dash for libraries, which have none."""
    return " ".join(f"{name}={value}" for name, value in entry.config.items()) or "-"


def print_entries(entries: Sequence[BankEntry]) -> None:
    """One row an entry; a ranking has no default, the best config of a problem has."""
    console = screen.out()
    if not entries:
        console.print("The bank is empty; skipjack tune fills it.")
        return
    library = library_column(entry.vendor for entry in entries)
    names = entry_device_names(entries, by_class=True)
    marked = [bool(why_stale(entry)) for entry in entries]
    some_stale = any(marked)
    rows = [
        (
            entry.problem,
            names[entry.device],
            _kind(entry),
            entry.solver,
            time_text(entry.time_ns),
            "-" if entry.kind == FIND else time_text(entry.default_ns),
            library_cell(time_text(entry.vendor_ns), entry.vendor, library),
            _headline(entry),
            *(["stale" if stale else ""] if some_stale else []),
            config_text(entry),
        )
        for entry, stale in zip(entries, marked, strict=True)
    ]
    left, right = ("problem", "device", "kind", "solver"), ("time", "default", library, "gain")
    head = (*left, *right, *(["stale"] if some_stale else []), "config")
    if len(rows) > _MOST_FOLDED:
        screen.print_long_table(head, rows, right)
    else:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in head[:-1]:
            table.add_column(name, justify="right" if name in right else "left", no_wrap=True)
        table.add_column("config")
        for *cells, config in rows:
            table.add_row(*cells, Text(config))
        console.print(table)
    if some_stale:
        count = "1 entry is" if sum(marked) == 1 else f"{sum(marked)} entries are"
        why = "the compiler or driver has changed"
        said = f"{count} stale, {why}; skipjack bank verify times what is of this machine again"
        console.print(Text(said), soft_wrap=True)


def _kind(entry: BankEntry) -> str:
    """The kind, with the deployment where that is not the device's default."""
    return entry.kind if entry.usual else f"{entry.kind}, {entry.deployed}"


def _headline(entry: BankEntry) -> str:
    """The gain over the fastest library, else over the default; a dash where a library won."""
    name, text = _baseline(entry)
    return f"{text} over {library_name(name)}" if text and entry.config else "-"


def _baseline(entry: BankEntry) -> tuple[str, str]:
    """What the headline compares with, and the gain over it; empty in entries of older versions."""
    found = entry.evidence.baseline
    if not found:
        return "", ""
    return found.over, gain_text(found.ratio, found.low, found.high)


def print_entry(entry: BankEntry, others: Sequence[BankEntry] = ()) -> None:
    """Everything about one entry, and what else the bank holds of its problem in a line each."""
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
        (entry.vendor or "vendor", time_text(entry.vendor_ns)),
    ]
    for name, gain in sorted(entry.speedup.items()):
        rival = entry.vendor if name == "vendor" else name
        lines.append((f"gain over {rival}", gain_text(gain["ratio"], gain["low"], gain["high"])))
    evidence = entry.evidence
    name, text = _baseline(entry)
    if text and name not in ("default", entry.vendor):
        lines.append((f"gain over {name}", text))
    if called := evidence.as_called:
        text = gain_text(called.ratio, called.low, called.high)
        lines.append(("gain as called", f"{text} over {library_name(entry.vendor)}, from Python"))
    lines += [
        ("samples", f"{evidence.samples} kept, {evidence.set_aside} set aside"),
        ("test", f"alpha {evidence.alpha}, smallest effect {evidence.min_effect}"),
        ("study", evidence.study or "-"),
        ("since", entry.created),
    ]
    if evidence.masked:
        lines.append(("masked", evidence.masked))
    if stale := why_stale(entry):
        lines.append(("stale", f"{stale}; skipjack bank verify {entry.problem} times it again"))
    if evidence.replaced:
        lines.append(("replaced", _replaced_text(evidence.replaced)))
    lines += [
        ("tie", " ".join(f"{k}={v}" for k, v in tie.items()))
        for tie in evidence.ties
        if not isinstance(tie, str)
    ]
    lines += [
        ("also known", f"{one.solver} {config_text(one)}, {time_text(one.time_ns)}")
        for one in others
    ]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        console.print(Text(f"{name:>{width}}  {value}"))
    console.print()


def _replaced_text(replaced: Replaced) -> str:
    """What the bank held before, and how it fared."""
    settings = (f"{name}={value}" for name, value in replaced.config.items())
    text = " ".join([replaced.solver or "-", *settings])
    return f"{text} ({_FARED.get(replaced.met, '-')})"


def _print_ranking(entry: BankEntry) -> None:
    """The solvers of a find, as it printed them."""
    console = screen.out()
    where = f"{entry.device_name} ({entry.device})"
    model = entry.evidence.model
    timed = f", timed on {model}" if model else ""
    console.print(Text(f"solvers of {entry.problem} on {where}{timed}, since {entry.created}"))
    console.print(ranking_table(entry.evidence.ranking))
    console.print()
