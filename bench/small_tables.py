"""Tables of LoopTune's shapes, and of what Skipjack itself costs."""

from __future__ import annotations

from collections.abc import Sequence

from table_text import Record, mean, name, table, where


def matmul_summary(result: Record) -> str:
    """Geometric means, worst shapes and losses of each tuned solver."""
    parts = [where(result)]
    for solver, speedups in result["summary"]["speedups"].items():
        rows = [
            [
                name(rival),
                mean(found),
                f"{found['min']:.3f} at {found['min_shape']}",
                f"{found['losses']} of {found['shapes']}",
                str(found["clear_losses"]),
            ]
            for rival, found in speedups.items()
        ]
        head = [
            f"speed-up of `{solver}` over",
            "geometric mean [95 %]",
            "least",
            "slower on",
            "under 0.95x",
        ]
        parts.append(table(head, rows))
        parts.append(_losses(result["losses"][solver]))
    parts += [f"Note: {note}" for note in result["notes"]]
    doubtful = result["tvm_slower_than_its_own_account"]
    if doubtful:
        parts.append(f"Ratios to TVM not to be trusted: {', '.join(doubtful)}.")
    return "\n\n".join(parts)


def _losses(found: Sequence[Record]) -> str:
    listed = ", ".join(f"{x['shape']} ({x['ratio']:.2f}x of {name(x['rival'])})" for x in found)
    return f"Below 0.95 times the speed of the best library or peer: {listed or 'none'}."


def matmul_shapes(result: Record) -> str:
    """Rates of everyone, shape by shape."""
    names = list(dict.fromkeys(who for shape in result["shapes"] for who in shape["contenders"]))
    leader = result["settings"]["solvers"][0]
    rows = []
    for shape in result["shapes"]:
        there = shape["contenders"]
        rates = [f"{there[who]['gflops']:.1f}" if who in there else "-" for who in names]
        share = f"{there[leader]['peak_share']:.1%}" if leader in there else "-"
        rows.append([shape["shape"], *rates, share])
    head = ["shape, GFLOP/s", *map(name, names), f"peak share of `{leader}`"]
    return f"{where(result)}\n\n{table(head, rows)}"


def matmul_tuning(result: Record) -> str:
    """What the tuning cost, beside MetaSchedule's."""
    rows = []
    for solver, found in result["summary"]["tuning"].items():
        if found:
            rows.append(
                [
                    f"`{solver}`",
                    f"{found['median_wall_seconds']:.2f} (at most {found['max_wall_seconds']:.2f})",
                    f"{found['median_trials']:.0f}",
                    f"{found['median_builds']:.0f}",
                    f"{found['median_build_ms']:.1f}",
                    f"{found['median_overhead']:.1%}",
                    f"{found['tvm_median_seconds']:.0f}" if "tvm_median_seconds" in found else "-",
                    f"{found['tvm_seconds_ratio']:.0f}" if "tvm_seconds_ratio" in found else "-",
                ]
            )
    head = ["solver", "seconds a shape", "trials", "builds", "ms a build", "overhead"]
    head += ["TVM, seconds", "times as long"]
    return f"{where(result)}\n\n{table(head, rows)}"


def overheads(result: Record) -> str:
    """Building, starting, and the share of time around the work."""
    rows = [
        [
            f"a build with `{solver}`, median of {found['builds']}",
            f"{found['total_ms']:.1f} ms (IR {found['ir_ms']:.1f}, LLVM {found['llvm_ms']:.1f})",
        ]
        for solver, found in result["builds"].items()
    ]
    rows += [
        [
            f"overhead of tuning `{found['problem']}` for {found['seconds']:g} s",
            f"{found['overhead']:.1%} ({found['trials']} trials)",
        ]
        for found in result["tunings"]
    ]
    rows += [
        ["start of a session", f"{result['session_start_seconds']:.2f} s"],
        [
            "`skipjack --help`",
            f"{result['help_ms']:.0f} ms (Python alone: {result['python_ms']:.0f} ms)",
        ],
    ]
    return f"{where(result)}\n\n{table(['what', 'cost'], rows)}"


def answers(result: Record) -> str:
    """What a program waits for an answer of `lookup`."""
    rows = [
        [
            f"{found['entries']:,}",
            _measured(found["first_cpu_ms"], "ms", 0),
            _measured(found["first_wall_ms"], "ms", 0),
            _measured(found["repeat_us"], "µs", 2),
            str(found["modules"]),
        ]
        for found in result["answers"]
    ]
    head = [
        "entries in the bank",
        "first answer, CPU time",
        "first answer",
        "the same again",
        "modules of ours",
    ]
    return f"{where(result)}\n\n{table(head, rows)}"


def call_costs(result: Record) -> str:
    """What each way to call a kernel costs, and how much more than the native call."""
    rows = [
        [
            f"`{found['problem']}`",
            way,
            _measured(taken, "µs", 2),
            "{over_native_us:.2f} µs [{over_low_us:.2f}, {over_high_us:.2f}]".format(**taken)
            if "over_native_us" in taken
            else "",
        ]
        for found in result["calls"]
        for way, taken in found["us"].items()
    ]
    return table(["problem", "call", "time", "more than the native call"], rows)


def _measured(found: Record, unit: str, digits: int) -> str:
    """A median with the tenth and the ninetieth percentile."""
    median, low, high = (f"{found[name]:.{digits}f}" for name in ("median", "low", "high"))
    return f"{median} {unit} [{low}, {high}]"


def start_well(result: Record) -> str:
    """The best of the first configs beside the best of a whole search."""
    settings, summary = result["settings"], result["summary"]
    head = [
        "problem",
        "solver",
        f"speed of the best of the first {settings['first']}",
        "which of them",
        "trials of the search",
    ]
    rows = [
        [
            f"`{found['problem']}`",
            f"`{found['solver']}`",
            "{ratio:.3f} [{low:.3f}, {high:.3f}]".format(**found["speed_share"]),
            str(found["place"]),
            str(found["trials"]),
        ]
        for found in result["problems"]
    ]
    whole = (
        f"{summary['reached']} of {summary['problems']} problems reach {summary['goal']:.0%}; "
        f"least {summary['worst']:.3f}, geometric mean {summary['geometric_mean']:.3f}."
    )
    return f"{where(result)}\n\n{table(head, rows)}\n\n{whole}"
