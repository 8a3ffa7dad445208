"""Tables of the convolutions: over all cases, by number of threads, and layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

import conv_summary
from conv_cases import DIRECTIONS, LAYOUTS
from conv_summary import CHOICE, LIBRARY, OURS, TARGETS
from table_text import Record, mean, table, threads, where

_HEAD = ["times PyTorch's speed", "what find chooses", "ours alone", "ours: least", "ours under 1"]
_LISTED = 20


def conv_overall(results: Sequence[Record]) -> str:
    """Means over all numbers of threads, the targets, and every kind of loss."""
    records = [record for result in results for record in result["cases"]]
    summary = conv_summary.summarize(records)
    groups = {"all": summary["all"]}
    for some in summary["by"].values():
        groups |= some
    parts = [table(_HEAD, _rows(groups)), *_targets(summary), *_short(summary)]
    return "\n\n".join([where(results[-1]), *parts])


def conv_summary_table(result: Record) -> str:
    """Means by direction, layout and batch for one number of threads."""
    summary = result["summary"]
    cells = {name.split(", ", 1)[1]: means for name, means in summary["cells"].items()}
    rows = _rows({"all": summary["all"], **cells})
    return "\n\n".join([threads(result), where(result), table(_HEAD, rows)])


def conv_layers(result: Record) -> str:
    """Every case: ours over PyTorch, and the solver; in brackets where find chooses PyTorch."""
    by_row: dict[tuple[str, int], dict[tuple[str, str], Record]] = {}
    for case in result["cases"]:
        row = by_row.setdefault((case["layer"], case["batch"]), {})
        row[case["layout"], case["direction"]] = case
    columns = [(layout, direction) for layout in LAYOUTS for direction in DIRECTIONS]
    rows = [
        [layer, str(batch), *(_cell(row.get(column)) for column in columns)]
        for (layer, batch), row in by_row.items()
    ]
    head = ["layer", "batch", *(f"{layout} {direction}" for layout, direction in columns)]
    return f"{threads(result)}\n\n{table(head, rows)}"


def _rows(groups: Record) -> list[list[str]]:
    return [
        [
            name,
            *(mean(means[column]) if column in means else "-" for column in (CHOICE, OURS)),
            *_worst(means.get(OURS)),
        ]
        for name, means in groups.items()
    ]


def _worst(found: Record | None) -> list[str]:
    if found is None:
        return ["-", "-"]
    return [
        f"{found['min']:.3f} at {found['min_shape']}",
        f"{found['losses']} of {found['shapes']}",
    ]


def _targets(summary: Record) -> list[str]:
    names = {CHOICE: "what find chooses", OURS: "ours alone"}
    words = [
        f"{names[column]} {summary['all'][column]['geomean']:.3f} (aim {target:g})"
        for column, target in TARGETS.items()
        if column in summary["all"]
    ]
    builds = summary["builds"]
    if builds["count"]:
        words.append(
            f"the median of {builds['count']} builds took {builds['median_ms']:.0f} ms "
            f"(aim {builds['target_ms']:.0f}; 90 % within {builds['p90_ms']:.0f} ms)"
        )
    first = ", ".join(f"`{name}` {n}" for name, n in summary["solvers"]["first"].items())
    ours = ", ".join(f"`{name}` {n}" for name, n in summary["solvers"]["best_of_ours"].items())
    return [
        f"All cases: {'; '.join(words)}.",
        f"Ranked first by find: {first}. Best of ours: {ours or 'none'}.",
    ]


def _short(summary: Record) -> list[str]:
    cases = summary["all"][CHOICE]["shapes"] if CHOICE in summary["all"] else 0
    texts = [
        f"{what} {len(summary[word])} of {cases} cases{_listed(summary[word])}."
        for word, what in (
            ("losses", "Ours is clearly slower than PyTorch in"),
            ("wrong_choices", "Find chose ours where PyTorch is clearly faster in"),
        )
    ]
    if summary["without_kernel"]:
        texts.append(f"No kernel of ours: {', '.join(summary['without_kernel'])}.")
    if len(summary["codes"]) > 1:
        texts.append(f"The cases were measured with {len(summary['codes'])} versions of the code.")
    return texts


def _listed(cases: Sequence[Record]) -> str:
    words = [f"{case['case']} ({case['ratio']:.2f}, `{case['solver']}`)" for case in cases]
    more = "; the worst: " if len(words) > _LISTED else ": "
    return more + ", ".join(words[:_LISTED]) if words else ""


def _cell(case: Record | None) -> str:
    if case is None or OURS not in case["ratios"]:
        return "-"
    text = f"{case['ratios'][OURS]['ratio']:.2f} {case['find']['ours']}"
    return f"({text})" if case["find"]["choice"] == LIBRARY else text
