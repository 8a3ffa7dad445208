"""How far the evaluation of a bundle is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from skipjack.fleet.bundle.evaluating import BundleProgress
from skipjack.report import screen


@contextlib.contextmanager
def evaluation_bar(*, enabled: bool) -> Iterator[Callable[[BundleProgress], None]]:
    """An observer; where standard error is no terminal it says failures alone."""
    console = screen.err()

    def complain(standing: BundleProgress) -> None:
        if standing.failed and enabled:
            console.print(
                f"skipjack: job {standing.job} failed: {standing.failed}",
                markup=False,
                soft_wrap=True,
            )

    if not enabled or not console.is_terminal:
        yield complain
        return
    bar = screen.live_bars(
        console, TextColumn("evaluating"), BarColumn(bar_width=40), MofNCompleteColumn()
    )
    with bar:
        task = bar.add_task("", total=None)

        def observe(standing: BundleProgress) -> None:
            complain(standing)
            bar.update(task, total=standing.total, completed=standing.done)

        yield observe
