"""Tables of what is remembered and stored, and of how good answers are."""

from __future__ import annotations

from lookup_stored import seconds
from table_text import Record, table, where


def remembered(result: Record) -> str:
    """What an answer costs that was given before."""
    found = result["remembered"]
    rows = [
        [
            way,
            "{median:.2f} µs [{low:.2f}, {high:.2f}]".format(**row),
            f"{row['beyond_call']:.2f} µs" if "beyond_call" in row else "",
        ]
        for way, row in found["us"].items()
    ]
    counted = found["system_calls"]
    said = "were not counted" if counted is None else f"of 2,000 such lookups: {counted}"
    text = f"{table(['what', 'time', 'beyond the call'], rows)}\n\nSystem calls {said}."
    return "\n\n".join([text, *_absent(found)])


def stored(result: Record) -> str:
    """The bank beside a plain file and Kernel Tuner."""
    found = result["stored"]
    ways = list(found["sizes"][0]["seconds"]["add one"])
    rows = [
        [f"{one['entries']:,}", what, *(seconds(times[way]["median"]) for way in ways)]
        for one in found["sizes"]
        for what, times in one["seconds"].items()
    ]
    names = [f"{way} {found['kernel_tuner']}" if way == "Kernel Tuner" else way for way in ways]
    text = table(["entries", "what", *names], rows)
    return "\n\n".join([text, *_absent(found)])


def _absent(found: Record) -> list[str]:
    return [f"Not there: {who} ({why})." for who, why in found["absent"].items()]


def regret(result: Record) -> str:
    """Flips and regrets, problem by problem; and replay fidelity."""
    summary, replay = result["summary"], result["replay"]
    kinds = ("one_median", "one_worst", "merged", "longer", "unknown")
    rows = [
        [
            f"`{found['problem']}`",
            f"{found['flips']} of {found['tunings']}",
            *(f"{found['regret'][kind]:.1%}" for kind in kinds),
            found["unknown_source"],
        ]
        for found in result["problems"]
    ]
    means = (f"{summary['regret'][kind]:.1%}" for kind in kinds)
    rows.append(["**mean**", f"{summary['flip_rate']:.0%}", *means, ""])
    head = ["problem", "flips", "one tuning, median", "one tuning, worst", "all merged"]
    head += [f"one of {result['settings']['longer_seconds']:g} s", "no bank", "answered by"]
    whole = (
        f"{summary['noticed_rate']:.0%} of all tunings have a regret over "
        f"{summary['noticed']:.0%}. Replay fidelity: {replay['same']} of {replay['lookups']} "
        f"programs run the solver, the config and the machine code of the bank's entry; "
        f"{replay['without_entry']} tunings left no entry."
    )
    return f"{where(result)}\n\n{table(head, rows)}\n\n{whole}"


def transfer(result: Record) -> str:
    """Nearest answers beside tunings of the very shapes."""
    rows = [
        [
            f"`{found['problem']}`",
            found["source"],
            f"{found['nearest']:+.1%}",
            f"{found['proposal']:+.1%} ({found['proposal_source']})",
        ]
        for found in result["transfer"]
    ]
    summary = result["summary"]
    if summary["transfer_regret"] is not None:
        mean = f"{summary['transfer_regret']:+.1%}", f"{summary['proposal_regret']:+.1%}"
        rows.append(["**mean of nearest answers**", summary["nearest_answers"], *mean])
    head = ["problem", "answer", "slower than its own tuning", "without any bank"]
    return table(head, rows)
