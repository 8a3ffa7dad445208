"""``skipjack loops measure``: tables of schedules and times, to be replayed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.loops.game import ThreadsOption
from skipjack.cli.options import JsonOption, PluginOption, examples

if TYPE_CHECKING:
    from skipjack.core.problem import Problem
    from skipjack.learn.rates import LoopTable

EXAMPLES = examples(
    "skipjack loops measure mm64_256_16 --size 5 --schedules 200 -o mm.jsonl",
    "skipjack loops measure matmul:112x208x256 sum:300x200/axis=0 --minutes 5 -o some.jsonl.gz",
)


def measure(
    problems: Annotated[
        list[str], typer.Argument(help="Problems, as matmul:128x128x128, or datasets by name.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The table; one that is there is continued.")
    ],
    schedules: Annotated[int, typer.Option(min=1, help="Schedules of each problem.")] = 272,
    size: Annotated[
        int | None, typer.Option(min=1, help="The first so many problems of each dataset.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Which problems of a dataset: train, test or all.")
    ] = "all",
    minutes: Annotated[float | None, typer.Option(min=0.0, help="Stop after so long.")] = None,
    threads: ThreadsOption = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the schedules that are drawn.")] = 0,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Measure schedules of problems and write their times into a table.

    Environments, searches and training replay a table exactly (--rates TABLE), without a quiet
    machine. It has good and bad schedules: those that are proposed first, random ones, states of
    games, and neighbours of the fastest. The table is written problem by problem: Ctrl-C ends with
    what was measured until then, and the same command continues.
    """
    import time

    import numpy as np

    from skipjack import __version__, plugins
    from skipjack.errors import UsageError
    from skipjack.interrupt import watch_for_interrupt
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
        raise UsageError("--minutes is 0: nothing would be measured; give more, or leave it out")
    settings = load_settings(plugins=plugin)
    plugins.load(settings.plugins)
    chosen = _problems(problems, split, size)
    device = cpu.detect(threads)
    for problem in chosen:
        loop_game(problem, device, Preset.FULL)  # refuses now what cannot be played
    table = open_table(output, table_header(device, __version__))
    write_table(output, table)
    ends = float("inf") if minutes is None else time.monotonic() + 60.0 * minutes

    def late() -> bool:
        return interrupt.requested or time.monotonic() > ends

    with watch_for_interrupt() as interrupt, LiveRates(device, settings) as rates:
        for number, problem in enumerate(chosen, 1):
            if late():
                break
            rng = np.random.default_rng([seed, number])
            times_ns = measure_problem(problem, device, rates, MeasurePlan.of(schedules), rng, late)
            table.add(problem.key, rates.place(problem).solver, times_ns)
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
    from skipjack.report.loops import rate_text

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
