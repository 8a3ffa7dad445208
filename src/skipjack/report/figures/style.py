"""Colors of figures: variables on a page, and fixed colors in a file of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

Theme = Literal["page", "light", "dark"]
"""``page``: colors are the page's, by its stylesheet; the others are for a file of its own."""

Kind = Literal[
    "plain", "best", "tie", "failed",
    "good", "running", "building", "ready", "waiting", "ended", "stopped",
]  # fmt: skip
"""What a mark says, which decides its color; a legend or a text says it in words."""
KINDS: tuple[Kind, ...] = get_args(Kind)
SERIES = 8
"""Colors of series, which repeat after so many."""

_LIGHT: Mapping[str, str] = {
    "paper": "#ffffff",
    "ink": "#1a1c1f",
    "faint": "#5b626b",
    "grid": "#e1e4e8",
    "plain": "#737b86",
    "best": "#d0410c",
    "tie": "#c08a1e",
    "failed": "#b3261e",
    "good": "#1b7f3b",
    "running": "#0b62c4",
    "building": "#0e8a9c",
    "ready": "#7fa8d6",
    "waiting": "#b3bac3",
    "ended": "#7a5aa6",
    "stopped": "#8a6a2f",
    **dict(
        zip(
            (f"s{number}" for number in range(SERIES)),
            (
                "#0b62c4",
                "#d0410c",
                "#1b7f3b",
                "#7e3fb5",
                "#9a6700",
                "#0e7490",
                "#b8266f",
                "#57606a",
            ),
            strict=True,
        )
    ),
}
_DARK: Mapping[str, str] = {
    "paper": "#16181c",
    "ink": "#e6e8eb",
    "faint": "#a4acb6",
    "grid": "#33383f",
    "plain": "#8f98a3",
    "best": "#ff9257",
    "tie": "#e3b341",
    "failed": "#ff7b72",
    "good": "#56c477",
    "running": "#6cb2ff",
    "building": "#3fb6c6",
    "ready": "#47719f",
    "waiting": "#5c646e",
    "ended": "#c3a2f0",
    "stopped": "#b08d4f",
    **dict(
        zip(
            (f"s{number}" for number in range(SERIES)),
            (
                "#6cb2ff",
                "#ff9257",
                "#56c477",
                "#c79bff",
                "#e3b341",
                "#4fd1e0",
                "#ff8cc0",
                "#a9b3bf",
            ),
            strict=True,
        )
    ),
}
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "12 4", "4 2", "1 3", "9 2 2 2 2 2")


def _rules() -> str:
    """Rules with ``var(--fig-NAME)`` in place of colors, below an element of class ``fig``."""
    lines = [
        f".fig{{font-family:{_FONT};font-size:12px}}",
        ".fig text{fill:var(--fig-ink)}",
        ".fig .paper{fill:var(--fig-paper)}",
        ".fig .head{font-size:13px;font-weight:600}",
        ".fig .small{font-size:11px}",
        ".fig text.faint{fill:var(--fig-faint)}.fig text.paper{fill:var(--fig-paper)}",
        ".fig .mono{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}",
        ".fig .strong{font-weight:600}",
        ".fig .halo{stroke:var(--fig-paper);stroke-width:3;stroke-linejoin:round;"
        "paint-order:stroke}",
        ".fig text.light{fill:#ffffff}.fig text.dark{fill:#16181c}",
        ".fig .grid{stroke:var(--fig-grid);stroke-width:1;fill:none}",
        ".fig .axis{stroke:var(--fig-faint);stroke-width:1;fill:none}",
        ".fig .level{stroke:var(--fig-ink);stroke-width:1;fill:none}",
        ".fig .line{fill:none;stroke-width:2;stroke-linejoin:round}",
        ".fig .thin{stroke-width:1}.fig .thick{stroke-width:3}",
        ".fig .dots{fill:none;stroke-width:5;stroke-linecap:round;opacity:.65}",
        ".fig .dot{opacity:.75}.fig .soft{opacity:.3}.fig .half{opacity:.55}",
        ".fig .hollow{fill:var(--fig-paper);stroke-width:1.3}",
        ".fig .cross{fill:none;stroke-width:1.6}",
        ".fig .whisker{stroke:var(--fig-ink);stroke-width:1.3;fill:none}",
        ".fig .node{fill:var(--fig-paper);stroke:var(--fig-faint);stroke-width:1}",
        ".fig .edge{stroke:var(--fig-paper);stroke-width:1}",
    ]
    for name in (*KINDS, *(f"s{number}" for number in range(SERIES))):
        lines.append(
            f".fig .f-{name}{{fill:var(--fig-{name})}}.fig .l-{name}{{stroke:var(--fig-{name})}}"
            f".fig text.t-{name}{{fill:var(--fig-{name})}}"
        )
    lines += [
        f".fig .d{number}{{stroke-dasharray:{dash}}}" for number, dash in enumerate(_DASHES) if dash
    ]
    return "\n".join(lines)


def dash_class(number: int) -> str:
    """The class of a series' dashes, so that series differ without colors too."""
    number %= len(_DASHES)
    return f"d{number}" if _DASHES[number] else ""


def figure_stylesheet() -> str:
    """The rules for figures on a page, light or dark as the reader has it.

    ``data-theme="light"`` or ``"dark"`` on the root element overrides the reader's setting.
    """
    dark = _variables(_DARK)
    return "\n".join(
        (
            f":root{{{_variables(_LIGHT)}}}",
            f'@media (prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{dark}}}}}',
            f':root[data-theme="dark"]{{{dark}}}',
            f"@media print{{:root:root{{{_variables(_LIGHT)}}}}}",
            # Where there is less room, the figure is scrolled and stays legible.
            ".fig{max-width:100%;min-width:32rem;height:auto}",
            _rules(),
        )
    )


def _variables(colors: Mapping[str, str]) -> str:
    return "".join(f"--fig-{name}:{color};" for name, color in colors.items())


def file_stylesheet(theme: Literal["light", "dark"]) -> str:
    """The rules with colors in place of variables, for programs that know no variables."""
    colors = _DARK if theme == "dark" else _LIGHT
    return re.sub(r"var\(--fig-([a-z0-9]+)\)", lambda found: colors[found[1]], _rules())


# Viridis at eleven places: even steps of brightness, and told apart by the color-blind.
_VIRIDIS = (
    *((68, 1, 84), (72, 36, 117), (65, 68, 135), (53, 95, 141), (42, 120, 142), (33, 145, 140)),
    *((34, 168, 132), (68, 191, 112), (122, 209, 81), (189, 223, 38), (253, 231, 37)),
)


def shade(share: float) -> tuple[str, bool]:
    """A color from dark (0) to bright (1), and whether it is dark."""
    place = min(max(share, 0.0), 1.0) * (len(_VIRIDIS) - 1)
    index = min(int(place), len(_VIRIDIS) - 2)
    part = place - index
    red, green, blue = (
        round(one + part * (other - one))
        for one, other in zip(_VIRIDIS[index], _VIRIDIS[index + 1], strict=True)
    )
    return f"#{red:02x}{green:02x}{blue:02x}", 0.3 * red + 0.59 * green + 0.11 * blue < 140
