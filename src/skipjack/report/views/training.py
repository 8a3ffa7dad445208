"""A training run: its curves, its sessions, and an episode step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skipjack.app import ReportedTraining
from skipjack.app.views import (
    EpisodePage,
    LoopStep,
    TableRequest,
    TrainingPage,
    ViewColumn,
    table_of,
)
from skipjack.learn.runs import TrainingSession
from skipjack.report.documents import DocumentSection, FactList, Part, Prose
from skipjack.report.figures import (
    Figure,
    FigureAxis,
    LineFigure,
    LineSeries,
    LoopTreeFigure,
    LoopTreeNode,
    text_of,
)
from skipjack.report.numbers import duration_text, metric_text
from skipjack.report.views.rendered_report import RenderedReport

_NAMES: Mapping[str, str] = {
    "speed_up": "Speed-up of episodes",
    "episode_reward": "Reward of an episode",
    "loss": "Loss",
    "entropy": "Entropy of the policy",
    "explore": "Share of random actions",
}
"""Titles of curves; others are titled by their name."""
_ACROSS = "steps"
_NO_CURVES = frozenset({_ACROSS, "iteration", "seconds"})
_MOST_STEPS = 24


def curve_figures(curves: Mapping[str, Sequence[float | None]]) -> dict[str, Figure]:
    """A figure for each curve of a run, by its name; the well-known ones first.

    Of others, those that never change are left out.
    """
    count = max(map(len, curves.values()), default=0)
    steps = curves.get(_ACROSS, ())
    xs = [steps[at] or 0.0 if at < len(steps) else float(at + 1) for at in range(count)]
    names = [name for name in curves if name not in _NO_CURVES]
    names.sort(key=lambda name: list(_NAMES).index(name) if name in _NAMES else len(_NAMES))
    return {
        name.replace("_", "-"): LineFigure(
            _NAMES.get(name, name.replace("_", " ")),
            FigureAxis(_ACROSS if steps else "iteration", whole=True),
            FigureAxis(name.replace("_", " "), log=False),
            [LineSeries(name, xs, curves[name], last_text=True)],
            height=170.0,
        )
        for name in names
        if any(value is not None for value in curves[name])
        and (name in _NAMES or len(set(curves[name])) > 1)
    }


def loop_step_figure(step: LoopStep, before: LoopStep | None = None) -> LoopTreeFigure:
    """The loops after an action; those that are not in the step before are marked as changed."""
    known = [_loop(text) for text in (before or step).loops]
    nodes = []
    for place, text in enumerate(step.loops):
        is_new = _loop(text) not in known
        if not is_new:
            known.remove(_loop(text))
        last = place == len(step.loops) - 1
        at_cursor = place == step.cursor and not last
        nodes.append(LoopTreeNode(text, place, "", is_new, at_cursor, last))
    said = [step.action or "the start"]
    if step.time_s is not None:
        said.append(text_of(1e9 * step.time_s, "ns"))
    if step.reward is not None:
        said.append(f"reward {step.reward:.3g}")
    return LoopTreeFigure(f"Step {step.number}", nodes, ", ".join(said))


def _loop(text: str) -> str:
    """A loop without its level, which changes with the loops outside of it."""
    return text.partition(" : L")[0]


def episode_figures(page: EpisodePage) -> dict[str, Figure]:
    """The loop trees of an episode: ``step-0`` is the start."""
    found: dict[str, Figure] = {}
    before = None
    for step in page.steps[: _MOST_STEPS + 1]:
        found[f"step-{step.number}"] = loop_step_figure(step, before)
        before = step
    return found


_SESSION_COLUMNS = (
    ViewColumn[TrainingSession]("began", "began", lambda one: one.began),
    ViewColumn[TrainingSession]("engine", "engine", lambda one: one.engine),
    ViewColumn[TrainingSession]("from", "from step", lambda one: one.from_step, "count"),
    ViewColumn[TrainingSession]("to", "to step", lambda one: one.to_step, "count"),
    ViewColumn[TrainingSession]("seconds", "time", lambda one: one.seconds, "s"),
    ViewColumn[TrainingSession]("ended", "ended", lambda one: one.ended),
)


def training_report(records: ReportedTraining) -> RenderedReport:
    """The report of a training run."""
    page, episode = records.page, records.episode
    curves = curve_figures(page.curves)
    trees = episode_figures(episode) if episode else {}
    sessions = table_of("sessions", _SESSION_COLUMNS, page.sessions, TableRequest(size=1_000))
    played: list[Part] = [*trees.values()]
    if episode is not None:
        gain = f", {episode.row.speed_up:.3g} times as fast" if episode.row.speed_up else ""
        played.insert(0, Prose(f"{episode.row.problem} with {episode.row.actions} actions{gain}."))
    row = page.row
    facts = FactList(
        [
            ("trainer", row.trainer),
            ("preset", row.preset),
            ("dataset", row.dataset),
            ("steps", f"{row.steps} of {row.total_steps}"),
            ("folder", str(row.path)),
        ]
    )
    shown: list[Part] = [*curves.values()]
    sections = [
        DocumentSection("Run", [facts]),
        DocumentSection("Curves", shown),
        DocumentSection("Sessions", [sessions]),
        DocumentSection("Last episodes", [page.episodes] if page.episodes.rows else []),
        DocumentSection("The last episode, step by step", played),
    ]
    figures = {**curves, **trees}
    return RenderedReport(f"Training run {row.name}", sections, figures, [Prose(_sentence(page))])


def _sentence(page: TrainingPage) -> str:
    row = page.row
    last = {name: values[-1] for name, values in page.curves.items() if name in _NAMES and values}
    said = [
        f"{name.replace('_', ' ')} {metric_text(value, 4)}"
        for name, value in last.items()
        if value is not None
    ]
    head = f"{row.steps} of {row.total_steps} steps in {duration_text(row.seconds)}, {row.state}"
    return f"{', '.join([head, *said])}."
