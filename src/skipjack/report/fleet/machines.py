"""The machines of a fleet: a list, what commands said there, and whether they are fit for work."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from json import dumps

from rich import box
from rich.table import Table
from rich.text import Text

from skipjack.fleet.machines.checking import CHECKS, Condition
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.machines.ssh import Answer, Line
from skipjack.fleet.records import Machine
from skipjack.report import screen

FORMAT = 1


def machine_list(
    machines: Sequence[Registration], workers: Mapping[str, Machine], json: bool
) -> None:
    """One row or line for each."""
    if json:
        for one in machines:
            print(dumps(machine_json(one, workers.get(one.name))))
        return
    table = _table("name", "host", "port", "device", "GPUs", "enabled", "as a worker", "remarks")
    for one in machines:
        user = f"{one.user}@" if one.user else ""
        gpus = str(one.gpus) if one.gpus else "-"
        place = (one.name, user + one.host, str(one.port or "-"), one.device or "-", gpus)
        state = worker_state(one, workers.get(one.name))
        cells = (*place, _enabled(one), state, one.remarks)
        table.add_row(*map(Text, cells))
    if machines:
        screen.print_table(table)
    else:
        screen.out().print("no machine is registered")


def machine_json(one: Registration, worker: Machine | None) -> dict[str, object]:
    """A machine for machines."""
    return {
        "format": FORMAT,
        "name": one.name,
        "host": one.host,
        "port": one.port,
        "user": one.user,
        "device": one.device,
        "gpus": one.gpus,
        "enabled": one.enabled,
        "remarks": one.remarks,
        "python": one.python,
        "seen": worker.seen if worker else None,
        "engine": worker.engine if worker else None,
        "aborted": worker.aborted if worker else one.aborted,
        "disabled_why": one.disabled_why,
        "idle": _idle(one, worker),
    }


def machine_details(one: Registration, worker: Machine | None) -> None:
    """All that is known of one."""
    facts = {
        "name": one.name,
        "host": one.address,
        "user": one.user or "as ssh decides",
        "device": one.device or "not said",
        "GPUs": str(one.gpus),
        "python": one.python or "python3",
        "enabled": _enabled(one),
        "as a worker": worker_state(one, worker),
        "remarks": one.remarks or "-",
    }
    for name, value in facts.items():
        print(f"{name:>11}  {value}")


def _enabled(one: Registration) -> str:
    return "yes" if one.enabled else ", ".join(word for word in ("no", one.disabled_why) if word)


def _idle(one: Registration, worker: Machine | None) -> str:
    """Why it gets no jobs, or will get none when it turns up."""
    aside = worker.set_aside if worker else one.disabled_why
    return aside or ("aborted" if (worker or one).aborted else "")


def worker_state(one: Registration, worker: Machine | None) -> str:
    """Whether it was ever at work, and whether it gets jobs."""
    if worker is None:
        return "never seen, aborted" if one.aborted else "never seen"
    if worker.set_aside and worker.set_aside != one.disabled_why:  # which is said elsewhere
        return f"set aside: {worker.set_aside}"
    if worker.aborted:
        return "aborted"
    return worker.pause or f"seen {worker.seen}"


def say_line(line: Line) -> None:
    """What a machine says, as it says it."""
    stream = sys.stderr if line.stream == "stderr" else sys.stdout
    print(f"{line.machine}: {line.text}", file=stream, flush=True)


def answer_json(answer: Answer) -> dict[str, object]:
    """What came of a command, for machines."""
    return {
        "format": FORMAT,
        "machine": answer.machine,
        "exit_code": answer.exit_code,
        "seconds": round(answer.seconds, 3),
        "failure": answer.failure,
        "stdout": answer.stdout,
        "stderr": answer.stderr,
    }


def exit_codes(answers: Sequence[Answer]) -> None:
    """How each ended."""
    width = max(len(answer.machine) for answer in answers)
    for answer in answers:
        how = "failed" if answer.failure else f"exit code {answer.exit_code}"
        print(f"{answer.machine:<{width}}  {how} after {answer.seconds:.1f} s")


def conditions(found: Sequence[Condition], json: bool) -> None:
    """A row for each machine, and a line for each thing that is not well."""
    if json:
        for one in found:
            checks = [{"check": c.name, "ok": c.ok, "text": c.text} for c in one.checks]
            record = {"format": FORMAT, "machine": one.machine.name, "ok": one.ok}
            print(dumps({**record, "checks": checks}))
        return
    made = [name for name in CHECKS if any(c.name == name for one in found for c in one.checks)]
    table = _table("machine", *made)
    for one in found:
        by_name = {check.name: check for check in one.checks}
        cells = [
            _cell(by_name[name].ok, by_name[name].text) if name in by_name else Text("-")
            for name in made
        ]
        table.add_row(Text(one.machine.name), *cells)
    screen.print_table(table)
    for one in found:
        for check in one.wrong:
            print(f"{one.machine.name}: {check.name}: {check.text}")


def _cell(ok: bool, text: str) -> Text:
    return Text(text) if ok else Text("BAD", style="red")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=name in ("name", "machine", "port"))
    return table
