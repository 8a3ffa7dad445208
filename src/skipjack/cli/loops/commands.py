"""``skipjack loops``: loop nests as a game."""

from __future__ import annotations

import typer

from skipjack.cli.arguments import examples
from skipjack.cli.loops import compare, dataset, evaluate, play, search, train

app = typer.Typer(
    help="Loop nests as a game: datasets, searches and trained policies.",
    epilog=examples(
        "skipjack loops dataset --kind mm --dim-a 64:256:16,64:256:16 --dim-b 64:256:16,64:256:16 "
        "-o mm64_256_16",
        "skipjack loops show mm64_256_16:112x208x256 --actions split_4,down,swap_down --tree",
        "skipjack loops search --dataset mm64_256_16 --size 5 --method beam --width 4 "
        "--lookahead 2 --budget 200",
        "skipjack loops train --dataset mm64_256_16 --total-steps 200000 --out RUN",
        "skipjack loops play matmul:128x128x128",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("dataset", epilog=dataset.DATASET_EXAMPLES)(dataset.dataset)
app.command("show", epilog=play.SHOW_EXAMPLES)(play.show)
app.command("search", cls=search.Drawing, epilog=search.EXAMPLES)(search.search)
app.command("measure", epilog=dataset.MEASURE_EXAMPLES)(dataset.measure)
app.command("play", epilog=play.PLAY_EXAMPLES)(play.play)
app.command("train", epilog=train.EXAMPLES)(train.train)
app.command("evaluate", cls=search.Drawing, epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
