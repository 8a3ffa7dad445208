"""``skipjack loops dataset`` and ``loops measure``: problems to learn from, and their times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import JsonOption, PluginOption, examples
from skipjack.cli.loops.options import ThreadsOption

if TYPE_CHECKING:
    from skipjack.core import Problem
    from skipjack.learn.rates import LoopTable


# ``skipjack loops dataset``: makes datasets of problems from ranges of sizes.

DATASET_EXAMPLES = examples(
    "skipjack loops dataset --kind mm --dim-a 64:256:16,64:256:16 --dim-b 64:256:16,64:256:16 "
    "-o mm64_256_16",
    "skipjack loops dataset --kind conv --dim-a 1,32:64:32,14,14 --dim-b 32:64:32,3,3 -o conv14",
    "skipjack loops dataset --kind reduce --dim-a 64:512:64,1000 --operations sum,max -o rows",
)


def dataset(
    kind: Annotated[
        str, typer.Option(help="Kind of problems: mm, conv, elementwise, broadcast or reduce.")
    ],
    dim_a: Annotated[
        str,
        typer.Option(
            "--dim-a",
            "--dimA",
            help="Ranges of the first array's sizes as first:last:step, separated by commas: rows "
            "and columns; for conv: images, channels, height, width.",
        ),
    ],
    out: Annotated[
        str, typer.Option("-o", "--out", help="The dataset's name, or a file with that name.")
    ],
    dim_b: Annotated[
        str,
        typer.Option(
            "--dim-b",
            "--dimB",
            help="For mm: rows and columns of the second array; for conv: channels of the result, "
            "height and width of the filter.",
        ),
    ] = "",
    operations: Annotated[
        str | None,
        typer.Option(
            help="For elementwise, broadcast and reduce: operations, separated by commas."
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Element type: f32 or f64.")] = "f32",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order and the split.")] = 0,
    train_share: Annotated[float, typer.Option(help="Share of the problems for training.")] = 0.9,
    limit: Annotated[
        int | None, typer.Option(help="Maximum number of problems, drawn with the seed.")
    ] = None,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Make a dataset of problems, shuffled and split into training and test problems.

    Ranges include their last size: 64:256:16 has 13 sizes. Other commands find the dataset by its
    name; if -o is a file, a copy is written to it.
    """
    from skipjack import plugins
    from skipjack.learn.loops import DatasetRequest, make_dataset, write_dataset
    from skipjack.reading import numbered
    from skipjack.settings import load_settings

    plugins.load(load_settings(plugins=plugin).plugins)
    path = Path(out)
    name, target = path.name.removesuffix(".json"), None
    if path.name and (path.name != out or out.endswith(".json")):
        target = path.with_name(f"{name}.json")
    chosen = tuple(each.strip() for each in operations.split(",")) if operations else ()
    request = DatasetRequest(kind, dim_a, dim_b, chosen, dtype, seed, train_share, limit)
    made = make_dataset(name, request)
    paths = write_dataset(made, target)
    if json:
        from skipjack.report import print_json

        counts = {"train": len(made.train), "test": len(made.test)}
        files = list(map(str, paths))
        record = {"dataset": name, "kind": kind, "seed": seed, **counts, "files": files}
        print_json("loops dataset", record)
        return
    typer.echo(
        f"Dataset {name}: {numbered(len(made.keys()), 'problem')}, {len(made.train)} for "
        f"training and {len(made.test)} for testing."
    )
    for each in paths:
        typer.echo(f"Written to {each}")


# ``skipjack loops measure``: tables of schedules and times that can be replayed.

MEASURE_EXAMPLES = examples(
    "skipjack loops measure mm64_256_16 --size 5 --schedules 200 -o mm.jsonl",
    "skipjack loops measure matmul:112x208x256 sum:300x200/axis=0 --minutes 5 -o some.jsonl.gz",
)


def measure(
    problems: Annotated[
        list[str],
        typer.Argument(help="Problems, such as matmul:128x128x128, or names of datasets."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The table; an existing one is continued.")
    ],
    schedules: Annotated[
        int, typer.Option(min=1, help="Number of schedules for each problem.")
    ] = 272,
    size: Annotated[
        int | None, typer.Option(min=1, help="Use only the first SIZE problems of each dataset.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Which problems of a dataset: train, test or all.")
    ] = "all",
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Time limit, in minutes.")] = None,
    threads: ThreadsOption = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random schedules.")] = 0,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Measure schedules of problems and write their times to a table.

    Environments, searches and training replay a table exactly (--rates TABLE), so they need no
    quiet machine. A table has good and bad schedules: the first proposals, random ones, states of
    games, and neighbors of the fastest. It is written problem by problem: Ctrl-C ends with the
    measurements so far, and the same command continues.
    """
    import time

    import numpy as np

    from skipjack import __version__, plugins
    from skipjack.errors import UsageError
    from skipjack.interrupt import deferred_interrupt
    from skipjack.learn.loops import Preset, loop_game
    from skipjack.learn.rates import (
        LiveRates,
        MeasurePlan,
        measure_problem,
        open_table,
        table_header,
        write_table,
    )
    from skipjack.native import cpu
    from skipjack.reading import numbered
    from skipjack.settings import load_settings

    if minutes == 0.0:
        raise UsageError("--minutes is 0, so nothing would be measured; give more, or leave it out")
    settings = load_settings(plugins=plugin)
    plugins.load(settings.plugins)
    chosen = _problems(problems, split, size)
    device = cpu.detect(threads)
    for problem in chosen:
        loop_game(
            problem, device, Preset.FULL
        )  # refuses problems that have no game before anything is measured
    table = open_table(output, table_header(device, __version__))
    write_table(output, table)
    ends = float("inf") if minutes is None else time.monotonic() + 60.0 * minutes

    def late() -> bool:
        return interrupt.requested or time.monotonic() > ends

    with deferred_interrupt() as interrupt, LiveRates(device, settings) as rates:
        for number, problem in enumerate(chosen, 1):
            if late():
                break
            rng = np.random.default_rng([seed, number])
            times_ns = measure_problem(problem, device, rates, MeasurePlan.of(schedules), rng, late)
            table.add(problem.key, rates.rate_key(problem).solver, times_ns)
            write_table(output, table)
            _report(problem, table, number, len(chosen), json=json)
    if not json:
        count = numbered(len(table.times_ns), "problem")
        typer.echo(f"{output}: {count}, {numbered(table.entries, 'schedule')}")
    if interrupt.requested:
        raise KeyboardInterrupt


def _problems(texts: list[str], split: str, size: int | None) -> list[Problem]:
    from skipjack.learn.loops import find_problems

    found: dict[str, Problem] = {}
    for text in texts:
        for problem in find_problems(text, split)[:size]:
            found.setdefault(problem.key, problem)
    return list(found.values())


def _report(problem: Problem, table: LoopTable, number: int, count: int, *, json: bool) -> None:
    from skipjack.learn.rates import gflops
    from skipjack.reading import numbered
    from skipjack.report import rate_text

    times_ns = table.of(problem)
    best_ns = table.best_ns(problem)
    failed = sum(ns is None for ns in times_ns.values())
    if json:
        from skipjack.report import print_json

        record = {"problem": problem.key, "schedules": len(times_ns), "failed": failed}
        print_json("loops measure", {**record, "best_ns": best_ns})
        return
    best = "none ran"
    if best_ns is not None:
        best = f"best {rate_text(gflops(problem, best_ns * 1e-9), 'GFLOP/s')}"
    schedules = numbered(len(times_ns), "schedule")
    typer.echo(f"{number}/{count} {problem.key}: {schedules}, {failed} failed, {best}")
