"""Benches whose commands are short shell scripts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from skipjack.core import Config, Status
from skipjack.sweep.bench import RunOutcome
from skipjack.sweep.commands import CommandBench, CommandSpec, CommandTemplate, ResultReader

BASE = {"batch": 1, "threads": 1}
IN_PLACE = 'mkdir -p build; echo "engine=$batch" > build/engine; echo built >> build/log'
APART = 'echo "engine=$batch" > "$SKIPJACK_BUILD_DIR/engine"; echo $batch >> ../builds.txt'
READ_IN_PLACE = '. build/engine; echo ran >> build/log; echo "value $engine"'
READ_APART = '. "$SKIPJACK_BUILD_DIR/engine"; echo "value $engine"'

Make = Callable[..., CommandBench]


class ShellBenches:
    """Makes benches one after the other; the one before is closed."""

    def __init__(self, work: Path, state: Path) -> None:
        self._work, self._state = work, state
        self._last: CommandBench | None = None

    def __call__(
        self,
        run: str,
        build: str | None = None,
        stop: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> CommandBench:
        self.close()
        for name, script in (("run.sh", run), ("build.sh", build)):
            path = self._work / name
            if script is not None and not (path.exists() and path.read_text().endswith(script)):
                path.write_text(f"#!/bin/sh\n{script}")
                path.chmod(0o755)
        options.setdefault("result", ResultReader.parse(r"regex:value (\S+)"))
        options.setdefault("base", BASE)
        options.setdefault("no_rebuild", ("threads",))
        spec = CommandSpec(
            run=CommandTemplate.parse("./run.sh {threads}"),
            build=CommandTemplate.parse("./build.sh") if build is not None else None,
            workdir=self._work,
            state_dir=self._state,
            **options,
        )
        self._last = CommandBench(spec, stop)
        return self._last

    def close(self) -> None:
        if self._last is not None:
            self._last.close()
            self._last = None


def at(bench: CommandBench, **point: Any) -> RunOutcome:
    return bench.measure(Config(point), {})


def value(outcome: RunOutcome) -> object:
    assert outcome.status is Status.OK, outcome.reason
    return outcome.metrics["value"]


def values(bench: CommandBench, *batches: int) -> list[object]:
    """What the runs of these batches say."""
    return [value(at(bench, batch=batch, threads=1)) for batch in batches]
