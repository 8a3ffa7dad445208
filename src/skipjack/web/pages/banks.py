"""Banks: their entries, one problem's entries with their evidence, and the difference of two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from skipjack.app.views import (
    BankSize,
    KnownEntry,
    ViewColumn,
    Workspace,
    bank_difference,
    bank_page,
    entry_page,
    problem_path,
    table_of,
)
from skipjack.core import settings_text
from skipjack.report import gain_text
from skipjack.report.views import difference_figures
from skipjack.web.content import (
    ChoiceSection,
    Fact,
    FactSection,
    FigureSection,
    PageCall,
    PageContent,
    PageLink,
    PageNotFoundError,
    ReadOnce,
    Section,
    TableSection,
)

BANK = PageLink("Bank", "/bank")
_USER = "user"


def bank(workspace: Workspace, call: PageCall) -> PageContent:
    """The entries of one of the banks in use."""
    layer = call.names.get("layer", _USER)
    pages = ReadOnce(lambda request: bank_page(workspace, layer, request))
    page = pages()
    names = [one.layer for one in page.banks]
    sections: list[Section] = [
        TableSection(
            "banks",
            "Banks, in the order in which a lookup asks them",
            lambda request: table_of("banks", BANKS_COLUMNS, page.banks, request),
        ),
        TableSection(
            "entries",
            f"Entries of the {layer} bank",
            lambda request: pages(request).entries,
            empty="It has no entries yet: skipjack tune adds the best configs.",
            main=True,
        ),
    ]
    if len(names) > 1:
        sections.append(_choice(names, names[-1], names[0]))
    return PageContent("Bank" if layer == _USER else f"Bank: {layer}", sections, refresh_s=10)


def _choice(names: list[str], first: str, second: str) -> ChoiceSection:
    choices = [(name, name) for name in names]
    return ChoiceSection(
        "compare",
        "Compare two banks",
        "/bank-difference",
        [("first", "first", choices, first), ("second", "second", choices, second)],
        "Compare",
    )


BANKS_COLUMNS: tuple[ViewColumn[BankSize], ...] = (
    ViewColumn(
        "layer",
        "bank",
        lambda one: one.layer,
        link=lambda one: bank_path(one.layer) if one.present else None,
        sortable=False,
    ),
    ViewColumn("entries", "entries", lambda one: one.entries, "count", sortable=False),
    ViewColumn("path", "file", lambda one: str(one.path), sortable=False),
)


def bank_path(layer: str) -> str:
    """The page of a bank."""

    return "/bank" if layer == _USER else f"/bank/{quote(layer, safe='')}"


def entry(workspace: Workspace, call: PageCall) -> PageContent:
    """The entries of a problem in a bank."""
    layer, key = call.name("layer"), call.name("problem")
    page = entry_page(workspace, layer, key)
    sections: list[Section] = []
    for place, one in enumerate(page.entries, 1):
        title = f"{one.entry.solver} for {one.entry.device_name} ({one.entry.deployed})"
        sections.append(FactSection(f"entry-{place}", title, _entry_facts(one)))
        if one.behind:
            sections.append(_behind_section(place, one))
    return PageContent(
        key,
        sections,
        (BANK, PageLink(layer, bank_path(layer))),
        lead=f"Entries of the {layer} bank.",
        refresh_s=0,
    )


def _entry_facts(one: KnownEntry) -> list[Fact]:
    entry, evidence = one.entry, one.entry.evidence
    facts = [
        Fact("problem", entry.problem, link=problem_path(entry.problem)),
        Fact("config", settings_text(entry.config)),
        Fact("time", entry.time_ns, "ns"),
        Fact("time of the default", entry.default_ns, "ns"),
        Fact(f"time of {entry.vendor or 'the library'}", entry.vendor_ns, "ns"),
        *(
            Fact(f"gain over {entry.vendor if over == 'vendor' else over}", _gain(gain))
            for over, gain in entry.speedup.items()
        ),
        Fact("samples", evidence.samples, "count"),
        Fact("samples set aside", evidence.set_aside, "count"),
        Fact("spread", evidence.spread, "share"),
        Fact("error probability", evidence.alpha),
        Fact("changed since", one.stale),
        Fact("kind", entry.kind),
        Fact("device class", entry.device),
        Fact("solver version", entry.solver_version),
        Fact("toolchain", entry.toolchain),
        Fact("protocol", entry.protocol),
        Fact("created", entry.created),
    ]
    return [fact for fact in facts if fact.value not in ("", None, "-")]


def _gain(gain: Mapping[str, Any]) -> str:
    return gain_text(gain.get("ratio"), gain.get("low"), gain.get("high"))


def _behind_section(place: int, one: KnownEntry) -> TableSection:
    columns: tuple[ViewColumn[Any], ...] = (
        ViewColumn("solver", "solver", lambda other: other.solver),
        ViewColumn("config", "config", lambda other: settings_text(other.config)),
        ViewColumn("time_ns", "time", lambda other: other.time_ns, "ns"),
        ViewColumn("samples", "samples", lambda other: other.evidence.samples, "count"),
        ViewColumn("created", "created", lambda other: other.created),
    )
    return TableSection(
        f"behind-{place}",
        "Weaker evidence for the same key",
        lambda request: table_of("entries", columns, one.behind, request),
    )


def difference(workspace: Workspace, call: PageCall) -> PageContent:
    """How two of the banks in use differ."""
    paths = {layer.name: layer.path for layer in workspace.layers}
    names = list(paths)
    chosen = call.chosen("first", names[-1]), call.chosen("second", names[0])
    first, second = (_path(paths, name) for name in chosen)
    pages = ReadOnce(lambda request: bank_difference(first, second, request))
    page = pages()
    counts = [Fact(kind, count, "count") for kind, count in page.counts.items()]
    figures = difference_figures(page)
    sections: list[Section] = [
        _choice(names, *chosen),
        FactSection("now", "Keys", [Fact("same", page.same, "count"), *counts], large=True),
        *(FigureSection(name, figure) for name, figure in figures.items()),
        TableSection(
            "differences",
            "Differences",
            lambda request: pages(request).rows,
            empty="Both have the same entries.",
        ),
    ]
    return PageContent(f"From {chosen[0]} to {chosen[1]}", sections, (BANK,), refresh_s=0)


def _path(paths: Mapping[str, Path], name: str) -> Path:
    # Only banks in use: a path in an address would read any file of the server.
    if name not in paths:
        raise PageNotFoundError(f"there is no bank {name!r}; choose from {', '.join(paths)}")
    return paths[name]
