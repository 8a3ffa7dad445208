"""Tables of the products of all sizes and of the vector operations, by number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from table_text import Record, mean, name, table, threads, where

_KINDS = {"square": "squares", "transformer": "transformers", "odd": "odd sizes"}
_COLUMNS = {
    "roofline": "share of the roofline",
    "numpy": "NumPy",
    "torch": "PyTorch",
    "numpy_called": "NumPy, both from Python",
    "torch_called": "PyTorch, both from Python",
}


def products_summary(result: Record) -> str:
    """Geometric means of the products against each library, and the shapes under the target."""
    summary = result["summary"]
    kinds = summary["by_kind"]
    rows = [
        [
            "share of the roofline" if rival == "roofline" else name(rival),
            mean(found),
            *(_geomean(kinds[kind].get(rival)) for kind in kinds),
            f"{found['min']:.3f} at {found['min_shape']}",
            f"{found['losses']} of {found['shapes']}",
        ]
        for rival, found in summary["all"].items()
    ]
    head = ["speed-up over", "all: geometric mean [95 %]"]
    head += [*(_KINDS.get(kind, kind) for kind in kinds), "least", "under 1"]
    under = _listed((case["shape"], case["ratio"]) for case in summary["under"])
    short = f"Below {summary['target']:g} times the speed of the better of NumPy and MKL: {under}."
    return "\n\n".join([threads(result), where(result), table(head, rows), short])


def products_shapes(result: Record) -> str:
    """Every shape: rates, the ratio that counts, the share of the roofline."""
    contenders = ("ours", "numpy", "cblas", "mkl", "torch")
    rows = []
    for shape in result["shapes"]:
        there, roof = shape["contenders"], shape["roofline"]
        rates = [f"{there[who]['gflops']:.1f}" if who in there else "-" for who in contenders]
        origin = shape["origin"] or _KINDS.get(shape["kind"], "")
        share = f"{roof['ratio']:.0%} ({_bound(roof['by'])})" if roof else "-"
        rows.append([shape["shape"], origin, *rates, _against_best(shape["ratios"]), share])
    head = ["shape, GFLOP/s", "from", "tuned", *map(name, contenders[1:])]
    head += ["against the better of NumPy and MKL", "roofline (bound by)"]
    return f"{threads(result)}\n\n{table(head, rows)}"


def _against_best(ratios: Mapping[str, Record]) -> str:
    there = [(ratios[who]["ratio"], who) for who in ("numpy", "mkl") if who in ratios]
    if not there:
        return "-"
    best = min(there)[1]
    return f"{_interval(ratios[best])} ({name(best)})"


def vector_summary(result: Record) -> str:
    """Geometric means by footprint, and every place under a target."""
    summary = result["summary"]
    columns = [column for column in _COLUMNS if column in summary["all"]]
    rows = [
        [where_, *(mean(found[column]) if column in found else "-" for column in columns)]
        for where_, found in {"all": summary["all"], **summary["by_footprint"]}.items()
    ]
    head = ["arrays together", *(_COLUMNS[column] for column in columns)]
    short = [
        f'Below the target in the column "{_COLUMNS[column]}": '
        + _listed((case["case"], case["ratio"]) for case in cases)
        + "."
        for column, cases in summary["under"].items()
    ]
    return "\n\n".join([threads(result), where(result), table(head, rows), *short])


def vector_operations(result: Record) -> str:
    """Each operation at each footprint: share of the roofline, times NumPy, times PyTorch."""
    cases = result["cases"]
    sizes = list(result["summary"]["by_footprint"])
    by_operation: dict[str, list[Record]] = {}
    for case in cases:
        by_operation.setdefault(case["operation"], []).append(case)
    rows = [
        [f"`{operation}`", *map(_cell, some), _calls(some)]
        for operation, some in by_operation.items()
    ]
    head = ["roofline; NumPy; PyTorch", *sizes, "PyTorch call"]
    return f"{threads(result)}\n\n{table(head, rows)}"


def _cell(case: Record) -> str:
    roof, ratios = case["roofline"], case["ratios"]
    if not roof:
        return "-"
    rest = [f"{ratios[who]['ratio']:.2f}" if who in ratios else "-" for who in ("numpy", "torch")]
    return "; ".join([f"{roof['ratio']:.0%}", *rest])


def _calls(cases: Sequence[Record]) -> str:
    return ", ".join(f"`{call}`" for call in dict.fromkeys(case["torch_call"] for case in cases))


def _interval(ratio: Mapping[str, float]) -> str:
    return f"{ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"


def _bound(by: str) -> str:
    return by if by in ("traffic", "arithmetic") else name(by)


def _geomean(found: Record | None) -> str:
    return f"{found['geomean']:.3f}" if found else "-"


def _listed(cases: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{case} ({ratio:.2f})" for case, ratio in cases) or "none"
