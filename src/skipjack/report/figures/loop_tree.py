"""A loop nest as a tree, with what an action changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.report.figures.canvas import LINE, MARGIN, Canvas, fitted, text_width

_STEP, _HIGH, _INDENT = 26.0, 20.0, 22.0


@dataclass(frozen=True, slots=True)
class LoopTreeNode:
    """A loop, or a statement inside loops."""

    text: str
    """``for k_o in 0..64``."""
    depth: int
    """How many loops it is in."""
    note: str = ""
    """Such as ``vectorized``, written after it."""
    changed: bool = False
    """Whether the last action changed it."""
    cursor: bool = False
    """Whether the next action is about it."""
    statement: bool = False


@dataclass(frozen=True, slots=True)
class LoopTreeFigure:
    """Nodes from top to bottom, as they are in the program."""

    title: str
    nodes: Sequence[LoopTreeNode]
    caption: str = ""
    """Below the title: the action that led here and its gain."""
    description: str = ""


def draw_loop_tree(figure: LoopTreeFigure, canvas: Canvas, top: float) -> None:
    """Draw the figure below `top`."""
    if figure.caption:
        canvas.text(MARGIN, top + 10, figure.caption, "faint", room=canvas.width - 2 * MARGIN)
        top += LINE + 6
    deepest = max((node.depth for node in figure.nodes), default=0)
    indent = min(_INDENT, (canvas.width * 0.5) / max(deepest, 1))
    parents: list[tuple[int, float]] = []
    for place, node in enumerate(figure.nodes):
        x, y = MARGIN + 4 + indent * node.depth, top + _STEP * place
        while parents and parents[-1][0] >= node.depth:
            parents.pop()
        if parents:
            depth, above = parents[-1]
            trunk = MARGIN + 4 + indent * depth + 9
            # From the parent down, and to this node.
            canvas.path(f"M{trunk:.1f} {above:.1f}V{y + _HIGH / 2:.1f}H{x:.1f}", "axis")
        parents.append((node.depth, y + _HIGH))
        room = canvas.width - x - MARGIN - 16
        note = fitted(node.note, room * 0.45, 11)
        text = fitted(node.text, room - text_width(note, 11) - 30, 12, mono=True)
        width = text_width(text, 12, mono=True) + 14
        edge = "thick l-best" if node.changed else "thick l-s0" if node.cursor else ""
        canvas.rectangle(
            x, y, width, _HIGH, f"node {edge}".strip(), node.text, radius=2 if node.statement else 9
        )
        canvas.text(x + 7, y + _HIGH / 2, text, "mono", middle=True)
        said = [note, "changed" if node.changed else "", "next" if node.cursor else ""]
        after = ", ".join(part for part in said if part)
        color = " t-best" if node.changed else " faint"
        canvas.text(
            x + width + 8, y + _HIGH / 2, after, f"small{color}", room=room, size=11, middle=True
        )
    canvas.height = top + _STEP * len(figure.nodes) + 6


def describe_loop_tree(figure: LoopTreeFigure) -> str:
    """The nodes with their depths."""
    nodes = [f"{'  ' * node.depth}{node.text}" for node in figure.nodes[:40]]
    return "; ".join([*([figure.caption] if figure.caption else []), *nodes])
