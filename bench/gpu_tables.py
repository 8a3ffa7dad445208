"""Tables of the GPU benchmark: means and losses, products, layers, vector operations, searches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log

from gpu_summary import LOSS, ratio_of
from table_text import Record, table

_HEAD = [
    "",
    "problems",
    "ours alone",
    "find's choice",
    "ours faster",
    f"under {LOSS}",
    "least",
    "most",
]


def where(result: Record) -> str:
    """The GPU, the day and the versions of a result."""
    versions = ", ".join(
        f"{name} {version}" for name, version in result["versions"].items() if version
    )
    return f"**{result['gpu']}**, {result['date']}; {versions}."


def means(result: Record) -> str:
    """Over the library's speed: all problems, then each kind."""
    rows = [_row("**all**", result["summary"])]
    rows += [_row(name, part) for name, part in result["by"].items() if part["problems"]]
    missing = [found["problem"] for found in result["problems"] if not ratio_of(found)]
    parts = [where(result), table(_HEAD, rows)]
    if missing:
        parts.append(f"Without a comparison (one of the two failed): {_listed(missing)}.")
    return "\n\n".join(parts)


def _row(name: str, part: Record) -> list[str]:
    return [
        name,
        str(part["problems"]),
        f"{part['ours_over_library']:.3f}",
        f"{part['find_over_library']:.3f}",
        str(part["ours_faster"]),
        str(part["lost"]),
        f"{part['least']:.2f}",
        f"{part['most']:.2f}",
    ]


def products(result: Record) -> str:
    """Every shape: cuBLAS' time, ours, and the ratio with its interval, for each type."""
    shapes: dict[str, dict[str, Record]] = {}
    for found in result["problems"]:
        _, shape, dtype = found["problem"].split(":")
        shapes.setdefault(shape, {})[dtype] = found
    head = ["M x N x K", "cuBLAS f16", "ours f16", "ratio f16", "ratio bf16", "solver"]
    rows = [
        [
            shape,
            _us(by["f16"]["vendor_us"]) if "f16" in by else "",
            _us(by["f16"]["time_us"]) if "f16" in by else "",
            _interval(by.get("f16")),
            _interval(by.get("bf16")),
            by["f16"]["solver"] if "f16" in by else "",
        ]
        for shape, by in sorted(shapes.items(), key=lambda one: _volume(one[0]))
    ]
    return table(head, rows)


def layers(result: Record) -> str:
    """Every layer and batch: ours over cuDNN by layout and direction."""
    rows: dict[str, dict[tuple[str, str], Record]] = {}
    for found in result["problems"]:
        _, shape, _, layout, direction = found["problem"].split(":")
        rows.setdefault(shape, {})[layout, direction] = found
    columns = [(layout, way) for layout in ("NHWC", "NCHW") for way in ("fwd", "bwd", "wrw")]
    head = ["layer", *(" ".join(column) for column in columns)]
    body = [
        [f"`{shape}`", *(_short(cells.get(column)) for column in columns)]
        for shape, cells in sorted(rows.items())
    ]
    return table(head, body)


def vectors(result: Record) -> str:
    """Every problem: bandwidth, and ratios to the copy and to torch.compile in the same rounds."""
    head = ["problem", "GB/s", "of the copy", "over torch.compile"]
    body = []
    for found in result["problems"]:
        compiled = found["over_compile"]
        body.append(
            [
                f"`{found['problem']}`",
                f"{found['gb_per_s']['ours']:.0f}",
                f"{found['over_copy']['ratio']:.2f}",
                f"{compiled['ratio']:.2f} [{compiled['low']:.2f}, {compiled['high']:.2f}]",
            ]
        )
    note = f"Not measured: {_listed(result['missed'])}." if result["missed"] else ""
    parts = (where(result), _over_compile(result["problems"]), table(head, body), note)
    return "\n\n".join(part for part in parts if part)


def _over_compile(lines: Sequence[Record]) -> str:
    ratios = [found["over_compile"]["ratio"] for found in lines]
    mean = exp(sum(map(log, ratios)) / len(ratios))
    return (
        f"The geometric mean of the {len(ratios)} ratios to `torch.compile` is {mean:.3f}; "
        f"`torch.compile` is faster than ours in {sum(ratio < 1 for ratio in ratios)}, "
        f"by more than 3 % in {sum(ratio < 0.97 for ratio in ratios)}."
    )


def starts(result: Record) -> str:
    """How near the first ten configs come to the best of a long search."""
    head = ["problem", "configs tried", "best", "first config", "best of the first ten"]
    rows = [
        [
            f"`{found['problem']}`",
            str(found["trials"]),
            _us(found["best_us"]),
            f"{found['first_over_best']:.3f}",
            f"{found['ten_over_best']:.3f}",
        ]
        for found in result["problems"]
    ]
    return "\n\n".join([where(result), table(head, rows)])


def searches(result: Record) -> str:
    """One kernel, 72 configs: how long each way of searching takes, and what its winner reaches."""
    names = {
        "triton": "`triton.autotune`",
        "skipjack": "`skipjack.autotune`, nothing known",
        "skipjack_again": "`skipjack.autotune`, in a second process",
        "ahead": "artifacts built beforehand, checked and raced",
        "max_autotune": "`torch.compile`, max-autotune (its own configs)",
    }
    base = result["triton"]["seconds"]
    again = result["retime"]
    rows = [
        [
            text,
            f"{result[name]['seconds']:.1f}",
            f"{result[name]['seconds'] / base:.3f}",
            _rate(again.get(name, {}), "tflops"),
            _rate(again.get(name, {}), "hot_tflops"),
        ]
        for name, text in names.items()
        if name in result and "seconds" in result[name]
    ]
    cublas = again["cublas"]
    rows.append(["cuBLAS", "", "", _rate(cublas, "tflops"), _rate(cublas, "hot_tflops")])
    build = result["ahead"]["build"]
    built = (
        f"Building the {build['configs']} configs beforehand took {build['cpu_seconds']:.0f} "
        f"CPU-seconds on another machine; {len(build['refused'])} need more shared memory than "
        "the GPU has."
    )
    head = ["", "seconds to the winner", "of triton.autotune's", "TFLOP/s", "TFLOP/s, hot"]
    return "\n\n".join([where(result), table(head, rows), built])


def _rate(found: Record, name: str) -> str:
    return f"{found[name]:.0f}" if name in found else ""


def _volume(shape: str) -> int:
    m, n, k = map(int, shape.split("/")[0].split("x"))
    return m * n * k


def _us(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} µs"


def _interval(found: Record | None) -> str:
    if not found or not (ratio := ratio_of(found)):
        return ""
    if not found["ratio"]:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} [{found['ratio']['low']:.2f}, {found['ratio']['high']:.2f}]"


def _short(found: Record | None) -> str:
    ratio = ratio_of(found) if found else None
    return f"{ratio:.2f}" if ratio else ""


def _listed(keys: Iterable[str]) -> str:
    names: Sequence[str] = sorted(keys)
    return ", ".join(f"`{name}`" for name in names)
