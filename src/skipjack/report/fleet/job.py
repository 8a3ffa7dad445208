"""One job: what it is, its story, its logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from json import dumps

from skipjack.fleet.records import Job, JobKind, StoryLine
from skipjack.fleet.store import LogText
from skipjack.ledger import verdict_word
from skipjack.report import screen
from skipjack.report.escaping import uncoloured
from skipjack.report.fleet.status import job_json
from skipjack.report.numbers import time_text
from skipjack.report.render import print_json, say


def print_job(job: Job, story: Sequence[StoryLine], json: bool) -> None:
    """The job and everything that happened to it."""
    if json:
        print_json("job show", {**job_json(job), "story": [asdict(line) for line in story]})
        return
    screen.print_fields(_facts(job))
    say("")
    for line in story:
        place = f" on {line.machine} {line.gpu}".rstrip() if line.machine else ""
        why = f": {line.reason}" if line.reason else ""
        step = f"{line.before} -> {line.after}" if line.before else line.after
        say(f"{line.at[:23]}  round {line.round}  {line.event:<12}  {step}{place}{why}")


_GAP = re.compile(r"\[\.\.\. \d+ characters left out \.\.\.\]")


class LogPrinter:
    """What workers said about a job, stage by stage; of what is shown again only what is new."""

    def __init__(self, json: bool) -> None:
        self._json = json
        self._shown: dict[tuple[int, str], Counter[str]] = {}
        """Lines by attempt and stage. Those that a program printed move when others are logged."""

    def show(self, texts: Sequence[LogText]) -> None:
        """Print the lines that were not printed before."""
        if not texts and not self._json and not self._shown:
            say("no worker has said anything about this job yet")
        for text in texts:
            key = text.attempt, str(text.stage)
            first, shown = key not in self._shown, self._shown.get(key, Counter())
            lines = text.text.splitlines()
            self._shown[key] = Counter(lines) | shown
            new = list(_beyond(lines, shown))
            if new or first:
                self._print(text, new, first)

    def _print(self, text: LogText, lines: Sequence[str], first: bool) -> None:
        words = "\n".join(lines)
        if self._json:
            record = {**asdict(text), "stage": str(text.stage), "text": words}
            print_json("job log", record)
            return
        if first:
            where = f" on {text.machine}" if text.machine else ""
            still = ", still running" if text.running else ""
            say(f"--- {text.at[:19]}  {text.stage} of round {text.round}{where}{still}")
        say(uncoloured(words).rstrip())


def _beyond(lines: Sequence[str], shown: Mapping[str, int]) -> Iterator[str]:
    """Lines that stand there more often than they were shown."""
    seen: Counter[str] = Counter()
    for line in lines:
        if shown and _GAP.fullmatch(line):
            continue  # how much is left out changes from look to look
        seen[line] += 1
        if seen[line] > shown.get(line, 0):
            yield line


def _facts(job: Job) -> list[tuple[str, str]]:
    plan, standing = job.plan, job.standing
    facts = [
        ("job", f"{job.id} of {job.label}"),
        ("problem", plan.problem),
        ("device", job.device_text or plan.device),
        ("solver", plan.shown_solver),
        ("searcher", f"{plan.shown_searcher}, seed {plan.seed}"),
        ("state", str(standing.state) + (f" in {standing.stage}" if standing.stage else "")),
        ("reason", standing.reason),
        ("retries", str(standing.retries)),
        ("trials", f"{job.trials} of {plan.budget}, {job.failed_trials} failed"),
        ("best", time_text(job.best_ns) if job.best_ns is not None else ""),
        ("built on", job.build_machine),
        ("timed on", f"{job.eval_machine} {job.gpu}".strip()),
    ]
    if job.result is not None:
        facts += [
            ("verdict", verdict_word(str(job.result.get("status", "")))),
            ("winner", f"{job.result.get('solver')} {dumps(job.result.get('config'))}"),
            ("ranking", _ranking(job)),
        ]
    return [(name, value) for name, value in facts if value]


def _ranking(job: Job) -> str:
    """The solvers of a find with their times, fastest first."""
    if job.result is None or job.plan.kind is not JobKind.FIND:
        return ""
    timed = [row for row in job.result.get("solvers", ()) if row.get("time_ns") is not None]
    return ", ".join(f"{row['solver']} {time_text(row['time_ns'])}" for row in timed)
