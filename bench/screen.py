"""What the benchmark prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from contenders import PEERS, UNTUNED
from summary import LOSS, best_rival

Record = dict[str, Any]
_WIDTH = 19


def shape_line(record: Record, subject: str) -> str:
    """One shape as soon as it is done: rate, share of peak, ratios, tuning."""
    if subject not in record["ratios"]:
        reason = record["skipped"].get(subject, "it was not tuned")
        return f"{record['shape']:<12} no kernel of {subject}: {reason}"
    mine, tuning = record["contenders"][subject], record["tuning"][subject]
    words = [
        f"{record['shape']:<12}",
        f"{mine['gflops']:6.1f}",
        f"{mine['peak_share']:5.0%}",
        *(_cell(record["ratios"][subject].get(name)) for name in _columns(subject)),
        f"{tuning['wall_seconds']:5.2f}",
        f"{tuning['trials']:4d}",
    ]
    rival, ratio = best_rival(record, subject)
    return "  ".join(words) + (f"  loses to {rival}" if ratio < LOSS else "")


def heading(subject: str) -> str:
    """The words above the columns."""
    names = "  ".join(f"{'vs ' + name:<{_WIDTH}}" for name in _columns(subject))
    return f"{'shape':<12}  GFLOPs   peak  {names}  tuned s  trials"


def _columns(subject: str) -> list[str]:
    other = "microkernel" if subject == "nest" else "nest"
    return [*PEERS, *UNTUNED, other]


def _cell(ratio: Record | None) -> str:
    if ratio is None:
        return f"{'-':<{_WIDTH}}"
    text = f"{ratio['ratio']:.2f} [{ratio['low']:.2f},{ratio['high']:.2f}]"
    return f"{text:<{_WIDTH}}"


def summary_lines(summary: Record, losing: Sequence[Record], subject: str) -> list[str]:
    """Means, minima and losses of one subject; losses stand beside the wins."""
    lines = [f"\n{subject}: times faster than ...   (geometric mean over shapes, 95 % interval)"]
    for rival, found in summary["speedups"][subject].items():
        name = rival.replace("_", " ")
        lines.append(
            f"  {name:<13} {found['geomean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]  "
            f"min {found['min']:.3f} at {found['min_shape']:<12} "
            f"slower on {found['losses']} of {found['shapes']}"
        )
    listed = ", ".join(f"{x['shape']} ({x['ratio']:.2f}x of {x['rival']})" for x in losing)
    lines.append(f"  under {LOSS}x of the best of them: {listed or 'none'}")
    lines.append("  " + tuning_line(summary["tuning"][subject]))
    return lines


def tuning_line(tuning: Record) -> str:
    """What the tuning cost."""
    if not tuning:
        return "nothing was tuned"
    text = (
        f"tuning: {tuning['median_wall_seconds']:.2f} s a shape (at most "
        f"{tuning['max_wall_seconds']:.2f}), {tuning['median_trials']:.0f} trials, "
        f"{tuning['median_builds']:.0f} builds of {tuning['median_build_ms']:.1f} ms, "
        f"overhead {tuning['median_overhead']:.1%} (medians)"
    )
    if "tvm_seconds_ratio" in tuning:
        text += (
            f"; TVM MetaSchedule took {tuning['tvm_median_seconds']:.0f} s, "
            f"{tuning['tvm_seconds_ratio']:.0f} times as long"
        )
    return text
