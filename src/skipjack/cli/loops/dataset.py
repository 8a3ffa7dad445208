"""``skipjack loops dataset``: problems to learn from, drawn from ranges of sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skipjack.cli.options import JsonOption, PluginOption, examples

EXAMPLES = examples(
    "skipjack loops dataset --kind mm --dim-a 64:256:16,64:256:16 --dim-b 64:256:16,64:256:16 "
    "-o mm64_256_16",
    "skipjack loops dataset --kind conv --dim-a 1,32:64:32,14,14 --dim-b 32:64:32,3,3 -o conv14",
    "skipjack loops dataset --kind reduce --dim-a 64:512:64,1000 --operations sum,max -o rows",
)


def dataset(
    kind: Annotated[
        str, typer.Option(help="What is computed: mm, conv, elementwise, broadcast or reduce.")
    ],
    dim_a: Annotated[
        str,
        typer.Option(
            "--dim-a",
            "--dimA",
            help="Ranges of the first array's sizes as first:last:step, joined by commas: rows and "
            "columns; of conv images, channels, height, width.",
        ),
    ],
    out: Annotated[
        str, typer.Option("-o", "--out", help="Its name, or a file; its name is then the file's.")
    ],
    dim_b: Annotated[
        str,
        typer.Option(
            "--dim-b",
            "--dimB",
            help="Of mm the second array's rows and columns; of conv channels of the result, "
            "height and width of the filter.",
        ),
    ] = "",
    operations: Annotated[
        str | None,
        typer.Option(help="Of elementwise, broadcast and reduce: which, joined by commas."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Element type: f32 or f64.")] = "f32",
    seed: Annotated[int, typer.Option(min=0, help="Decides the order and the split.")] = 0,
    train_share: Annotated[float, typer.Option(help="Share of the problems to train on.")] = 0.9,
    limit: Annotated[
        int | None, typer.Option(help="At most so many problems, drawn by the seed.")
    ] = None,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Make a dataset of problems, shuffled and split into those to train on and to be judged on.

    The last size of a range is in it: 64:256:16 has 13 sizes. A dataset is known by its name
    afterwards; a file that is named gets a copy.
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
        told = {"dataset": name, "kind": kind, "seed": seed, **counts, "files": files}
        print_json("loops dataset", told)
        return
    typer.echo(
        f"Dataset {name}: {numbered(len(made.keys()), 'problem')}, {len(made.train)} to train on "
        f"and {len(made.test)} to be judged on."
    )
    for each in paths:
        typer.echo(f"Written to {each}")
