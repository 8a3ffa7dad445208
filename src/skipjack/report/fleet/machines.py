"""The machines of a fleet: a list, what commands said there, and whether they are fit for work."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from rich.text import Text

from skipjack.fleet.machines.checking import CHECKS, Condition
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.machines.ssh import Answer, Line
from skipjack.fleet.records import Machine
from skipjack.report import screen
from skipjack.report.render import TableColumn, print_json, print_rows


def machine_list(
    machines: Sequence[Registration], workers: Mapping[str, Machine], json: bool
) -> None:
    """One row or line for each."""
    if json:
        for one in machines:
            print_json("machine list", machine_json(one, workers.get(one.name)))
        return
    rows = []
    for one in machines:
        user = f"{one.user}@" if one.user else ""
        gpus = str(one.gpus) if one.gpus else "-"
        place = (one.name, user + one.host, str(one.port or "-"), one.device or "-", gpus)
        state = worker_state(one, workers.get(one.name))
        rows.append((*place, _enabled(one), state, one.remarks))
    print_rows(
        _columns("name", "host", "port", "device", "GPUs", "enabled", "as a worker", "remarks"),
        rows,
        if_empty="no machine is registered",
    )


def machine_json(one: Registration, worker: Machine | None) -> dict[str, object]:
    """A machine for machines."""
    return {
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
    screen.print_fields([*facts.items()])


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


def render_answers(answers: Sequence[Answer], json: bool) -> None:
    """What came of a command on each machine."""
    if not json:
        _exit_codes(answers)
        return
    for answer in answers:
        print_json("machine exec", _answer_fields(answer))


def _answer_fields(answer: Answer) -> dict[str, object]:
    return {
        "machine": answer.machine,
        "exit_code": answer.exit_code,
        "seconds": round(answer.seconds, 3),
        "failure": answer.failure,
        "stdout": answer.stdout,
        "stderr": answer.stderr,
    }


def _exit_codes(answers: Sequence[Answer]) -> None:
    """How each ended."""
    lines = []
    for answer in answers:
        how = "failed" if answer.failure else f"exit code {answer.exit_code}"
        lines.append((answer.machine, f"{how} after {answer.seconds:.1f} s"))
    screen.print_fields(lines)


def conditions(found: Sequence[Condition], json: bool) -> None:
    """A row for each machine, and a line for each thing that is not well."""
    if json:
        for one in found:
            checks = [{"check": c.name, "ok": c.ok, "text": c.text} for c in one.checks]
            record = {"machine": one.machine.name, "ok": one.ok}
            print_json("machine check", {**record, "checks": checks})
        return
    made = [name for name in CHECKS if any(c.name == name for one in found for c in one.checks)]
    rows: list[tuple[Text | str, ...]] = []
    for one in found:
        by_name = {check.name: check for check in one.checks}
        cells = [
            _cell(by_name[name].ok, by_name[name].text) if name in by_name else Text("-")
            for name in made
        ]
        rows.append((one.machine.name, *cells))
    print_rows(_columns("machine", *made), rows)
    for one in found:
        for check in one.wrong:
            print(f"{one.machine.name}: {check.name}: {check.text}")


def _cell(ok: bool, text: str) -> Text:
    return Text(text) if ok else Text("BAD", style="red")


def _columns(*names: str) -> list[TableColumn]:
    return [TableColumn(name, folded=name not in ("name", "machine", "port")) for name in names]
