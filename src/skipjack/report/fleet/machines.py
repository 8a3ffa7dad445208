"""The machines of a fleet, their images, and the Ray cluster on them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.text import Text

from skipjack.fleet.machines import (
    CHECKS,
    ClusterState,
    MachineCondition,
    OutputLine,
    PresentImage,
    SshResult,
)
from skipjack.fleet.model import Machine, Registration
from skipjack.report import screen
from skipjack.report.screen import TableColumn, print_fields, print_json, print_rows

# The machines of a fleet: lists, outputs of commands, and checks.


def machine_list(
    machines: Sequence[Registration], workers: Mapping[str, Machine], json: bool
) -> None:
    """Print a row or JSON line for each machine."""
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
    """The JSON record of a machine."""
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
    """Print everything that is known about a machine."""
    facts = {
        "name": one.name,
        "host": one.address,
        "user": one.user or "ssh's default",
        "device": one.device or "not given",
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
    """Why it gets no jobs, or will get none once it is seen; empty if it does."""
    aside = worker.quarantined if worker else one.disabled_why
    return aside or ("aborted" if (worker or one).aborted else "")


def worker_state(one: Registration, worker: Machine | None) -> str:
    """Whether it has been seen as a worker, and whether it gets jobs."""
    if worker is None:
        return "never seen, aborted" if one.aborted else "never seen"
    if worker.quarantined and worker.quarantined != one.disabled_why:  # which has its own column
        return f"quarantined: {worker.quarantined}"
    if worker.aborted:
        return "aborted"
    return worker.pause or f"seen {worker.seen}"


def say_line(line: OutputLine) -> None:
    """Print a line of a machine's output."""
    stream = sys.stderr if line.stream == "stderr" else sys.stdout
    print(f"{line.machine}: {line.text}", file=stream, flush=True)


def render_answers(answers: Sequence[SshResult], json: bool) -> None:
    """Print the outcome of a command on each machine."""
    if not json:
        _exit_codes(answers)
        return
    for answer in answers:
        print_json("machine exec", _answer_fields(answer))


def _answer_fields(answer: SshResult) -> dict[str, object]:
    return {
        "machine": answer.machine,
        "exit_code": answer.exit_code,
        "seconds": round(answer.seconds, 3),
        "failure": answer.failure,
        "stdout": answer.stdout,
        "stderr": answer.stderr,
    }


def _exit_codes(answers: Sequence[SshResult]) -> None:
    """Print how each command ended."""
    lines = []
    for answer in answers:
        how = "failed" if answer.failure else f"exit code {answer.exit_code}"
        lines.append((answer.machine, f"{how} after {answer.seconds:.1f} s"))
    screen.print_fields(lines)


def conditions(found: Sequence[MachineCondition], json: bool) -> None:
    """Print a row for each machine, and a line for each failed check."""
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


# Which machines have an image, and on which of them it differs.

Row = dict[str, str | bool]


def image_rows(
    found: Sequence[PresentImage], machines: Sequence[str], image: str = ""
) -> list[Row]:
    """A row for each image and machine; `differs` if its id is not the most common one."""
    ids: dict[str, dict[str, str]] = {}
    if image:
        ids[image.removesuffix(":latest")] = {}
    for one in found:
        ids.setdefault(one.image, {})[one.machine] = one.id
    rows: list[Row] = []
    for name, here in sorted(ids.items()):
        usual = Counter(here.values()).most_common(1)[0][0] if here else ""
        for machine in machines:
            id = here.get(machine, "")
            differs = bool(id) and id != usual
            rows.append({"image": name, "machine": machine, "id": id, "differs": differs})
    return rows


def print_images(rows: Sequence[Row]) -> None:
    """Print the rows as a table."""
    cells = []
    for row in rows:
        short = str(row["id"]).removeprefix("sha256:")[:12] or "missing"
        words = (str(row["image"]), str(row["machine"]), short)
        cells.append((*words, "differs" if row["differs"] else ""))
    print_rows(
        ["image", "machine", "id", ""],
        cells,
        if_empty="no images were built by skipjack image build",
    )


# The address and the nodes of a Ray cluster.


def cluster_state(state: ClusterState, token: Path, json: bool) -> None:
    """Print a line for each node."""
    record = state.record
    if json:
        nodes = [
            {
                **{"machine": node.machine, "up": node.up, "head": node.head, "text": node.text},
                **({"warning": node.warning} if node.warning else {}),
            }
            for node in state.nodes
        ]
        address = record.client_address if record and record.ip else None
        content = {"address": address, "token_path": str(token), "nodes": nodes}
        print_json("fleet status", content)
        return
    if record is None:
        print("no cluster is up; skipjack fleet up starts one")
        return
    print_fields(
        [(node.machine, f"{node.text}{'  head' if node.head else ''}") for node in state.nodes]
    )
