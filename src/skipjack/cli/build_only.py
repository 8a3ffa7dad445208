"""``skipjack tune --build-only``: object files for a CPU that may be elsewhere."""

from __future__ import annotations

from dataclasses import replace
from json import dumps
from pathlib import Path

import typer

from skipjack.core.problem import Problem
from skipjack.interrupt import Interrupted
from skipjack.solvers import solver_for
from skipjack.storage import output_directory
from skipjack.tuning import Builder, BuildOptions, BuildResult, write_objects


def build_problems(
    builder: Builder,
    problems: list[Problem],
    options: BuildOptions,
    output: Path | None,
    json: bool,
) -> None:
    """Build one problem after the other and show what came of each, also after Ctrl-C."""
    for problem in problems:  # what cannot work is refused before anything is started
        solver_for(problem, builder.device, options.solver)
    if output is not None:
        output_directory(output)
    results: list[BuildResult] = []
    try:
        with builder:
            _build_all(builder, problems, options, output, json, results)
    finally:
        if results and not json:
            from skipjack.report.builds import print_builds

            print_builds(results)
    if any(result.interrupted for result in results):
        raise KeyboardInterrupt
    if not all(result.built for result in results):
        raise typer.Exit(1)


def _build_all(
    builder: Builder,
    problems: list[Problem],
    options: BuildOptions,
    output: Path | None,
    json: bool,
    results: list[BuildResult],
) -> None:
    from skipjack.report.progress import progress_bars

    with progress_bars(len(problems), enabled=not json) as observe:
        for problem in problems:
            try:
                result = builder.build(problem, replace(options, observer=observe))
            except Interrupted as stopped:
                result = stopped.result
            if output is not None:
                result = write_objects(result, output)
            results.append(result)
            if json:
                typer.echo(dumps(result.to_json()))
            if result.interrupted:
                break
