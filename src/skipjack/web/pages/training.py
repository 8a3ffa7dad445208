"""Training runs: their table, one run with its curves, one episode step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from skipjack.app.views import (
    EpisodeRow,
    LoopStep,
    RecordTable,
    TableRequest,
    UnknownNameError,
    ViewColumn,
    Workspace,
    episode_page,
    seconds_of,
    table_of,
    training_page,
    training_path,
    training_table,
)
from skipjack.learn.runs import TrainingSession
from skipjack.reading import whole_number
from skipjack.report.views import curve_figures, episode_figures
from skipjack.web.content import (
    CurveSection,
    Fact,
    FactSection,
    FigureSection,
    LogSection,
    PageCall,
    PageContent,
    PageLink,
    ReadOnce,
    Section,
    TableSection,
)
from skipjack.web.pages.curves import training_curve_path

TRAINING = PageLink("Training", "/training")
_EPISODES = 20

SESSION_COLUMNS: tuple[ViewColumn[TrainingSession], ...] = (
    ViewColumn("began", "began", lambda one: seconds_of(one.began), "time"),
    ViewColumn("ended", "ended", lambda one: one.ended),
    ViewColumn("engine", "engine", lambda one: one.engine),
    ViewColumn("workers", "workers", lambda one: one.workers, "count"),
    ViewColumn("from_step", "from step", lambda one: one.from_step, "count"),
    ViewColumn("to_step", "to step", lambda one: one.to_step, "count"),
    ViewColumn("seconds", "time", lambda one: one.seconds, "s"),
    ViewColumn(
        "versions",
        "versions",
        lambda one: ", ".join(f"{name} {version}" for name, version in one.versions.items()),
    ),
)
STEP_COLUMNS: tuple[ViewColumn[LoopStep], ...] = (
    ViewColumn("number", "step", lambda one: one.number, "count"),
    ViewColumn("action", "action", lambda one: one.action or "the start"),
    ViewColumn("reward", "reward", lambda one: one.reward),
    ViewColumn("time", "time", lambda one: None if one.time_s is None else 1e9 * one.time_s, "ns"),
    ViewColumn("loops", "loops from the outside", lambda one: " / ".join(one.loops)),
)


def runs(workspace: Workspace, call: PageCall) -> PageContent:
    """All training runs."""
    table = TableSection(
        "runs",
        "Training runs",
        lambda request: training_table(workspace, request),
        empty="There is none: skipjack loops train makes one; skipjack web --runs DIR names its "
        "directory.",
        main=True,
    )
    return PageContent("Training", [table])


def run(workspace: Workspace, call: PageCall) -> PageContent:
    """One training run."""
    name = call.name("name")
    pages = ReadOnce(lambda request: training_page(workspace, name, request))
    page = pages(TableRequest(size=_EPISODES))
    row = page.row
    facts = [
        Fact("trainer", row.trainer),
        Fact("preset", row.preset),
        Fact("dataset", row.dataset),
        Fact("began", row.began, "time"),
        Fact("directory", str(row.path)),
    ]
    sections: list[Section] = [
        FactSection(
            "now",
            "Now",
            [
                Fact("steps", row.steps, "count"),
                Fact("of", row.total_steps, "count"),
                Fact("done", row.done, "share"),
                Fact("time", row.seconds, "s"),
                Fact("speed-up", row.speed_up, "ratio"),
            ],
            large=True,
        ),
        FactSection("about", "About", [one for one in facts if one.value not in ("", None)]),
        *(
            CurveSection(f"curve-{id}", figure, training_curve_path(name, id))
            for id, figure in curve_figures(page.curves).items()
        ),
        TableSection(
            "episodes",
            "Last episodes",
            lambda request: _linked(pages(request).episodes, name),
            empty="No episode has ended yet.",
            rows=_EPISODES,
        ),
        TableSection(
            "sessions",
            "Sessions",
            lambda request: table_of("sessions", SESSION_COLUMNS, page.sessions, request),
        ),
    ]
    return PageContent(name, sections, (TRAINING,), badge=row.state)


def _linked(table: RecordTable[EpisodeRow], name: str) -> RecordTable[EpisodeRow]:
    columns = [
        replace(one, link=_link(name)) if one.name == "episode" else one for one in table.columns
    ]
    return replace(table, columns=columns)


def _link(name: str) -> Any:
    return lambda one: f"{training_path(name)}/episodes/{one.iteration}/{one.episode}"


def episode(workspace: Workspace, call: PageCall) -> PageContent:
    """The loops of an episode, step by step."""
    name = call.name("name")
    page = episode_page(
        workspace,
        name,
        episode_number(call.name("iteration")),
        episode_number(call.name("episode")),
    )
    row = page.row
    sections: list[Section] = [
        FactSection(
            "now",
            "Outcome",
            [
                Fact("actions", row.actions, "count"),
                Fact("reward", row.reward),
                Fact("speed-up", row.speed_up, "ratio"),
                Fact("problem", row.problem),
            ],
            large=True,
        ),
        *(FigureSection(id, figure) for id, figure in episode_figures(page).items()),
        TableSection(
            "steps",
            "Steps",
            lambda request: table_of("steps", STEP_COLUMNS, page.steps, request),
            rows=100,
        ),
        LogSection("schedule", "Schedule", page.schedule),
    ]
    title = f"Iteration {row.iteration}, episode {row.episode}"
    within = (TRAINING, PageLink(name, training_path(name)))
    return PageContent(title, sections, within, refresh_s=0)


def episode_number(text: str) -> int:
    """The number of an iteration, or of an episode in it."""
    try:
        return whole_number(text)
    except ValueError:
        raise UnknownNameError(f"{text[:40]!r} is not the number of an episode") from None
