"""Programs that ran with tuned kernels: hits, misses and time saved."""

from __future__ import annotations

from skipjack.app.views import (
    TableRequest,
    ViewColumn,
    Workspace,
    program_page,
    programs_page,
    table_of,
)
from skipjack.report.views import program_figures
from skipjack.web.content import (
    Fact,
    FactSection,
    FigureSection,
    PageCall,
    PageContent,
    PageLink,
    ReadOnce,
    Section,
    TableSection,
)

PROGRAMS = PageLink("Programs", "/programs")

REASON_COLUMNS: tuple[ViewColumn[tuple[str, int]], ...] = (
    ViewColumn("operations", "operations", lambda one: one[1], "count"),
    ViewColumn("reason", "why PyTorch runs them", lambda one: one[0]),
)


def programs(workspace: Workspace, call: PageCall) -> PageContent:
    """Result files, and problems that no bank knew."""
    pages = ReadOnce(lambda request: programs_page(workspace, request))
    return PageContent(
        "Programs",
        [
            TableSection(
                "programs",
                "Programs that ran with tuned kernels",
                lambda request: pages(request).programs,
                empty="There is no result file: skipjack exec --result -- python train.py writes "
                "one, and skipjack web --programs DIR names its directory.",
                main=True,
            ),
            TableSection(
                "misses",
                "Problems that no bank knew",
                lambda request: (
                    (
                        pages()
                        if request == TableRequest()
                        else programs_page(workspace, of_misses=request)
                    ).misses
                ),
                empty="None are recorded: set SKIPJACK_ON_MISS=record when a program runs.",
            ),
        ],
        refresh_s=10,
    )


def program(workspace: Workspace, call: PageCall) -> PageContent:
    """One run of a program."""
    name = call.name("name")
    pages = ReadOnce(lambda request: program_page(workspace, name, request))
    page = pages()
    row, whole = page.row, page.time
    facts = [
        Fact("command", row.command),
        Fact("directory", page.directory),
        Fact("process", str(page.pid)),
        Fact("policy", row.policy),
        Fact("has ended", row.has_ended),
        Fact("written", row.written, "time"),
    ]
    figures = program_figures(page, page.operations.rows)
    sections: list[Section] = [
        FactSection(
            "now",
            "Outcome",
            [
                Fact("operations", row.operations, "count"),
                Fact("hits", row.hits, "count", help="Operations that a bank answered"),
                Fact("tuned", row.tuned, "count"),
                Fact("our kernels", row.ours, "count"),
                Fact("failed", row.failed, "count"),
                Fact("saved", 1000.0 * row.saved_us, "ns"),
                *([Fact("gain of the program", whole.gain, "ratio")] if whole else []),
            ],
            large=True,
        ),
        FactSection("about", "About", [one for one in facts if one.value not in ("", None)]),
        *(FigureSection(id, figure) for id, figure in figures.items()),
        TableSection(
            "operations",
            "Operations",
            lambda request: pages(request).operations,
            main=True,
        ),
        TableSection(
            "reasons",
            "Left to PyTorch",
            lambda request: table_of("reasons", REASON_COLUMNS, page.reasons, request),
            empty="Our kernels run all operations.",
        ),
    ]
    return PageContent(name, sections, (PROGRAMS,), refresh_s=0 if row.has_ended else 10)
