"""The text of an SVG: escaped, with rounded coordinates, and the parts that figures share."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite

from skipjack.report.escaping import escaped
from skipjack.report.figures.axes import Scale
from skipjack.report.figures.style import dash_class

LINE = 16.0
"""The height of a line of text."""
MARGIN = 10.0
_NARROW, _WIDE = frozenset("ijl.,:;|!'`()[]tfrI -"), frozenset("mwMWQOGD@%—+=<>~^")


def clean(text: str) -> str:
    """The text on one line, with control characters spelled out."""
    shown = escaped(" ".join(text.split()))
    # XML has no surrogates, whatever a file name had.
    return shown.encode("utf-8", "replace").decode()


def text_width(text: str, size: float = 12.0, mono: bool = False) -> float:
    """About how wide a text is, rather too much than too little."""
    if mono:
        return sum(1.2 if _is_broad(each) else 0.62 for each in text) * size
    widths = (
        1.05 if _is_broad(c) else 0.4 if c in _NARROW else 0.88 if c in _WIDE
        else 0.72 if c.isupper() else 0.63
        for c in text
    )  # fmt: skip
    return size * sum(widths)


def _is_broad(character: str) -> bool:
    return not character.isascii() and unicodedata.east_asian_width(character) in "WF"


def fitted(text: str, room: float, size: float = 12.0, mono: bool = False) -> str:
    """The text without its middle, if it is longer than the room."""
    text = clean(text)
    if text_width(text, size, mono) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        most = (low + high + 1) // 2
        if text_width(_without_middle(text, most), size, mono) <= room:
            low = most
        else:
            high = most - 1
    return _without_middle(text, low)


def _without_middle(text: str, most: int) -> str:
    if most >= len(text):
        return text
    back = most // 2
    return f"{text[: most - back]}…{text[len(text) - back :]}"


def number(value: float) -> str:
    """A coordinate with one decimal."""
    if not isfinite(value):
        raise ValueError(f"a coordinate is {value}")
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def path_of(points: Iterable[tuple[float, float]], closed: bool = False) -> str:
    """The path through points."""
    body = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f"M{body}{'Z' if closed else ''}"


@dataclass
class Canvas:
    """Collects the elements of an SVG, from back to front."""

    width: float
    height: float = 0.0
    parts: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What a reader of the description should know: ``2000 of 10000 points are drawn``."""

    def _add(self, element: str, attributes: str, content: str = "", title: str = "") -> None:
        inner = f"<title>{escape(clean(title))}</title>" if title else ""
        inner += content
        end = f">{inner}</{element}>" if inner else "/>"
        self.parts.append(f"<{element} {attributes}{end}")

    def rectangle(
        self, x: float, y: float, width: float, height: float,
        classes: str, title: str = "", fill: str = "", radius: float = 0.0,
    ) -> None:  # fmt: skip
        """A rectangle; `fill` is a color that no theme changes."""
        more = f' fill="{fill}"' if fill else ""
        more += f' rx="{number(radius)}"' if radius else ""
        size = f'width="{number(max(width, 0.0))}" height="{number(max(height, 0.0))}"'
        self._add(
            "rect",
            f'x="{number(x)}" y="{number(y)}" {size} class="{classes}"{more}',
            title=title,
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, classes: str) -> None:
        """A straight line."""
        self.path(f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", classes)

    def path(self, path: str, classes: str, title: str = "", stroke: str = "") -> None:
        """A path; `stroke` is a color that no theme changes."""
        more = f' stroke="{stroke}"' if stroke else ""
        self._add("path", f'd="{path}" class="{classes}"{more}', title=title)

    def circle(self, x: float, y: float, radius: float, classes: str, title: str = "") -> None:
        """A circle."""
        place = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
        self._add("circle", f'{place} class="{classes}"', title=title)

    def cross(self, x: float, y: float, size: float, classes: str, title: str = "") -> None:
        """A small cross."""
        left, right, top, bottom = (number(v) for v in (x - size, x + size, y - size, y + size))
        self.path(
            f"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}",
            f"cross {classes}",
            title,
        )

    def text(
        self, x: float, y: float, text: str, classes: str = "", anchor: str = "start",
        room: float | None = None, size: float = 12.0, turn: float = 0.0, middle: bool = False,
    ) -> None:  # fmt: skip
        """A text, without its middle if it does not fit in the room; `y` is its base line."""
        mono = "mono" in classes
        shown = clean(text) if room is None else fitted(text, room, size, mono)
        if not shown:
            return
        place = f'x="{number(x)}" y="{number(y + (0.35 * size if middle else 0.0))}"'
        more = f' class="{classes}"' if classes else ""
        more += f' text-anchor="{anchor}"' if anchor != "start" else ""
        more += f' transform="rotate({number(turn)} {number(x)} {number(y)})"' if turn else ""
        # The whole text is shown when the pointer is above it.
        self._add("text", place + more, escape(shown), text if shown != clean(text) else "")


@dataclass(frozen=True, slots=True)
class Swatch:
    """An entry of a legend."""

    name: str
    classes: str
    """Of the mark: ``f-best`` or ``l-s0``."""
    mark: str = "dot"
    """``dot``, ``line``, ``area``, ``cross`` or ``hollow``."""


def draw_legend(canvas: Canvas, x: float, y: float, swatches: Sequence[Swatch]) -> float:
    """Draw entries in rows; returns the position below them."""
    if not swatches:
        return y
    at, room = x, canvas.width - MARGIN
    for swatch in swatches:
        name = fitted(swatch.name, min(260.0, room - x - 30), 11)
        wide = 26 + text_width(name, 11) + 12
        if at + wide > room and at > x:
            at, y = x, y + LINE
        middle = y + 0.5 * LINE
        _draw_swatch(canvas, at, middle, swatch)
        canvas.text(at + 22, middle, name, "small", size=11, middle=True)
        at += wide
    return y + LINE + 4


def _draw_swatch(canvas: Canvas, x: float, y: float, swatch: Swatch) -> None:
    if swatch.mark == "line":
        canvas.line(x, y, x + 18, y, swatch.classes)
    elif swatch.mark == "area":
        canvas.rectangle(x + 3, y - 5, 12, 10, swatch.classes)
    elif swatch.mark == "cross":
        canvas.cross(x + 9, y, 3.5, swatch.classes)
    else:
        canvas.circle(x + 9, y, 4, swatch.classes)


def series_classes(place: int, kind: str | None) -> tuple[str, str]:
    """The color's name and the class of the dashes of a series."""
    return (kind, "") if kind else (f"s{place % 8}", dash_class(place))


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle that data are drawn in, with a scale for each direction."""

    left: float
    top: float
    width: float
    height: float
    across: Scale
    up: Scale

    def x(self, value: float) -> float:
        """The position of a value from left to right."""
        return self.left + self.across.place(value) * self.width

    def y(self, value: float) -> float:
        """The position of a value from bottom to top."""
        return self.top + (1.0 - self.up.place(value)) * self.height

    @property
    def bottom(self) -> float:
        """The position of the lower edge."""
        return self.top + self.height


def framed(
    canvas: Canvas, top: float, height: float, across: Callable[[int], Scale], up: Scale
) -> Frame:
    """Draw axes, ticks and grid for `height` pixels of data; the canvas ends below them.

    `across` gives the scale from left to right for the number of ticks that have room.
    """
    label_room = max((text_width(tick.text, 11) for tick in up.ticks), default=0.0)
    left = MARGIN + label_room + 8 + (LINE if up.name else 0.0)
    width = max(canvas.width - left - 2 * MARGIN, 50.0)
    scale = across(8)
    for most in (6, 5, 4, 3, 2):
        widest = max((text_width(tick.text, 11) for tick in scale.ticks), default=0.0)
        if len(scale.ticks) * (widest + 12) <= width:
            break
        scale = across(most)
    frame = Frame(left, top, width, height, scale, up)
    for tick in up.ticks:
        y = frame.y(tick.value)
        canvas.line(left, y, left + width, y, "grid")
        canvas.text(left - 6, y, tick.text, "small faint", "end", size=11, middle=True)
    for tick in scale.ticks:
        x = frame.x(tick.value)
        canvas.line(x, top, x, frame.bottom, "grid")
        half = text_width(tick.text, 11) / 2
        at = min(max(x, MARGIN + half), canvas.width - half - 2)
        canvas.text(at, frame.bottom + 15, tick.text, "small faint", "middle", size=11)
    canvas.path(path_of([(left, top), (left, frame.bottom), (left + width, frame.bottom)]), "axis")
    if up.name:
        canvas.text(
            MARGIN + 6, top + height / 2, up.name, "small", "middle", height + 40, 11, turn=-90
        )
    canvas.text(left + width / 2, frame.bottom + 32, scale.name, "small", "middle", width, 11)
    canvas.height = frame.bottom + 40
    return frame
