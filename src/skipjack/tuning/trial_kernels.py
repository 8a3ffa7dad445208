"""A few kernels that are built, run and checked, to see whether this machine can."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from skipjack.core.device import Device
from skipjack.core.trial import Candidate, Status
from skipjack.execute.build_pool import Build, BuildPool
from skipjack.execute.session import Loadable, RunSession
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import Settings
from skipjack.solvers import find_solver, solvers_for
from skipjack.solvers.solver import slack_of
from skipjack.tuning.build_only import promising_configs
from skipjack.tuning.context import protocol_for, timing_cores

PROBLEMS = ("add:4096", "matmul:48x48x48", "softmax:16x256")
"""Small, and among them every kind of vector instruction that kernels use."""


@dataclass(frozen=True, slots=True)
class TriedKernel:
    """What came of one."""

    candidate: Candidate
    status: Status
    reason: str = ""


def candidates_for(device: Device) -> list[Candidate]:
    """The most promising config of each solver that would be tuned."""
    return [
        Candidate(problem, solver.name, promising_configs(solver.space(problem, device), 1)[0])
        for problem in map(parse, PROBLEMS)
        for solver in solvers_for(problem, device)
    ]


def try_kernels(
    settings: Settings, candidates: Sequence[Candidate] | None = None
) -> list[TriedKernel]:
    """Build them for this machine's CPU and run each once, in processes of their own.

    Nothing is timed or kept, so the device is not locked for it.
    """
    device = cpu.detect()
    wanted = candidates_for(device) if candidates is None else list(candidates)
    with (
        BuildPool(1, device) as pool,
        RunSession(protocol_for(device), timing_cores(settings, 1)) as session,
    ):
        for candidate in wanted:
            pool.submit(candidate)
        builds: list[Build] = []
        while pool.pending:
            builds += pool.poll(1.0)
        builds.sort(key=lambda build: wanted.index(build.candidate))
        return list(_run(session, builds))


def _run(session: RunSession, builds: Sequence[Build]) -> Iterator[TriedKernel]:
    for problem, group in groupby(builds, key=lambda build: build.candidate.problem):
        session.prepare(problem)
        for build in group:
            candidate = build.candidate
            if build.artifact is None:
                yield TriedKernel(candidate, build.status, build.reason)
                continue
            digest = hashlib.sha256(build.artifact).hexdigest()
            slack = slack_of(find_solver(candidate.solver), problem)
            code = Loadable(
                build.artifact, digest, build.symbol, build.abi, build.slots, slack=slack
            )
            failure, _ = session.verify(session.add(code))
            if failure:
                yield TriedKernel(candidate, failure.status, failure.reason)
            else:
                yield TriedKernel(candidate, Status.OK)
