"""Tables of docs/learning-results.md: searchers on recorded spaces, heuristics, transfer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import skipjack
from skipjack.models import HEURISTIC_FILE, ConfigHeuristic
from table_text import Record, table, where

SHIPPED = Path(skipjack.__file__).parent / "system" / "models"


def replay_means(result: Record) -> str:
    """Each searcher over all recorded and synthetic spaces, the best first."""
    rows = []
    for one in result["means"]:
        score, ratio, needs = one["score"], one["ratio"], one["random_needs"]
        rows.append(
            (
                f"`{one['searcher']}`",
                str(_spaces(result, one["searcher"])),
                str(one["runs"]),
                f"{1 - score['mean']:.3f} [{1 - score['high']:.3f}, {1 - score['low']:.3f}]",
                f"{ratio['mean']:.3f}",
                *(f"{needs[name]:.1f} x" if name in needs else "" for name in _checked(result)),
            )
        )
    needed = [f"random needs, at {name}" for name in _checked(result)]
    head = ("searcher", "spaces", "runs", "relative area", "best found", *needed)
    versions = result["versions"]
    peers = ", ".join(
        f"{name} {versions[name]}" for name in ("kernel_tuner", "optuna") if versions.get(name)
    )
    said = (
        f"{len(result['spaces'])} spaces, {result['budget']} evaluations, {result['seeds']} seeds; "
        f"{result['date'][:10]}; {peers}."
    )
    return f"{said}\n\n{table(head, rows)}"


def replay_spaces(result: Record) -> str:
    """The relative area of each searcher on each space."""
    names = [one["name"] for one in result["spaces"]]
    found: dict[str, dict[str, str]] = {}
    for one in result["cases"]:
        if one.get("score"):
            row = found.setdefault(one["searcher"], {})
            row[one["recording"]] = f"{1 - one['score']['mean']:.2f}"
    order = [one["searcher"] for one in result["means"]]
    rows = [(f"`{name}`", *(found[name].get(space, "") for space in names)) for name in order]
    return table(("searcher", *names), rows)


def _spaces(result: Record, searcher: str) -> int:
    return sum(one["searcher"] == searcher and bool(one.get("score")) for one in result["cases"])


def _checked(result: Record) -> list[str]:
    return list(dict.fromkeys(name for one in result["means"] for name in one["random_needs"]))


def model_search(result: Record) -> str:
    """The searcher `model` against the others, by kind of problem."""
    rows = [
        (kind, f"`{name}`", f"{one['ratio']:.2f} [{one['low']:.2f}, {one['high']:.2f}]")
        for kind, others in result["areas_of_model_over_others"].items()
        for name, one in others.items()
    ]
    slowest = max(one["searchers"]["model"]["processor_ms_per_trial"] for one in result["cases"])
    said = (
        f"`{result['device']}`, {len(result['cases'])} spaces, {result['seeds']} seeds; "
        f"{result['date'][:10]}. The model takes at most {slowest:.1f} ms of a core for each trial."
    )
    return f"{said}\n\n{table(('problems', 'against', 'area of `model` over its area'), rows)}"


def heuristic(result: Record) -> str:
    """Configs named without a measurement, on families of shapes that were held out."""
    summary = dict(result["summary"])
    differences = summary.pop("mean difference")
    rows = [
        (
            way,
            str(one["problems"]),
            f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]",
            f"{one['p10']:.3f}",
            f"{one['least']:.3f}",
        )
        for way, one in summary.items()
    ]
    gains = "; ".join(
        f"{name.replace(' - ', ' minus ')}: {low:+.3f} to {high:+.3f}"
        for name, (low, high) in differences.items()
    )
    head = ("way", "problems", "mean", "tenth percentile", "least")
    what = "Products" if result["cases"][0]["problem"].startswith("matmul") else "Convolutions"
    return f"{what}. {where(result)}\n\n{table(head, rows)}\n\nMean differences: {gains}."


def transfer(result: Record) -> str:
    """Searches on a new class of devices, with and without the trials of another class."""
    after = [str(at) for at in result["after"]]
    rows = [
        (f"`{name}`", *(_percent(one["after"][at]) for at in after), _percent(one["mean"]))
        for name, one in result["summary"].items()
    ]
    said = (
        f"{result['device']} from {result['prior']}; {len(result['cases'])} recordings, "
        f"{result['seeds']} seeds; {result['date'][:10]}."
    )
    head = ("searcher", *(f"behind the best after {at}" for at in after), "mean over them")
    return f"{said}\n\n{table(head, rows)}"


def heuristic_transfer(result: Record) -> str:
    """A heuristic on a class of devices that it was not trained on."""
    ways: Mapping[str, Record] = result["ways"]
    rows = [
        (way, str(one["problems"]), f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]")
        for way, one in ways.items()
    ]
    trained = ", ".join(result["trained_on"])
    near = ", ".join(result["nearest_on"])
    said = f"Trained on {trained}; nearest shapes as measured on {near}."
    return f"{said} {where(result)}\n\n{table(('way', 'problems', 'mean'), rows)}"


def cards(folder: Path = SHIPPED) -> str:
    """What the heuristics that come with Skipjack were fitted to, and their quality held out."""
    rows = []
    for path in sorted(folder.glob(f"{HEURISTIC_FILE}-*.npz")):
        model = ConfigHeuristic.read(path.read_bytes(), path.name)
        card = model.card
        held = {way: one["mean"] for way, one in card["held_out"].items()}
        kinds = [*card["dtypes"], *card["layouts"], *card["directions"]]
        rows.append(
            (
                f"{model.group}, `{model.device}`",
                ", ".join(card["devices"]),
                f"{card['problems']}, {card['trials']}",
                ", ".join(kinds),
                ", ".join(f"`{name}`" for name in card["solvers"]),
                ", ".join(f"{way} {mean:.3f}" for way, mean in held.items()),
                f"`{card.get('digest', '')[:12]}`, {card['made'][:10]}",
            )
        )
    head = ("for", "measured on", "problems, trials", "kinds", "solvers", "held out", "digest, day")
    return table(head, rows)


def heuristic_time(result: Record) -> str:
    """What an answer of each heuristic costs."""
    ways = ("ranking", "proposal", "first proposal")
    rows = []
    for name, one in result["models"].items():
        ratio = one["proposal_over_first_proposal"]
        times = [f"{one[way]['median_us']:.0f} ({one[way]['p95_us']:.0f})" for way in ways]
        rows.append(
            (name, *times, f"{ratio['median']:.3f} ({ratio['p5']:.3f} to {ratio['p95']:.3f})")
        )
    head = ("heuristic", *(f"{way}, µs" for way in ways), "ratio")
    return f"{where(result)}\n\n{table(head, rows)}"


def _percent(logarithm: float) -> str:
    return f"{100 * logarithm:.1f} %"
