"""The queue of builds: what is built, being built or known from before is not built again."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from typing import Protocol

from skipjack.core import Candidate, Device, Space, Staged
from skipjack.errors import StorageError, foreign_code
from skipjack.execute.pool import Build, known_failure
from skipjack.ledger import BuildRecord, CandidateKey, Ledger
from skipjack.settings import RETRY_FAILED_BUILDS, machine_name
from skipjack.solvers import BuildingSolver, Slot, SourceAware, build_identity, find_solver
from skipjack.storage import ArtifactStore

log = logging.getLogger(__name__)

_Part = tuple[str, str]
"""A solver, and the part of a config that decides its build."""


class WriteBuild(Protocol):
    """Records a build, and that candidates of this identity lead to it."""

    def __call__(self, build: BuildRecord, *candidates: CandidateKey, identity: str) -> None: ...


class MissingCodeError(StorageError):
    """The machine code of a requested config is missing; build the round again."""


class Builders(Protocol):
    """Builds candidates; usually a `BuildPool`."""

    @property
    def pending(self) -> int:
        """Builds that were submitted and not yet returned."""

    @property
    def size(self) -> int:
        """How many builds run at once."""

    def warm_up(self) -> None:
        """Wait until all of them have started."""

    def submit(self, candidate: Candidate) -> None:
        """Queue a build."""

    def poll(self, timeout_s: float) -> list[Build]:
        """Builds that are done, waiting up to this long for the first."""

    def withdraw(self) -> list[Candidate]:
        """Take back the builds that no worker has started, and return them."""

    def cancel(self) -> None:
        """Forget everything that was submitted."""


class BuildContext(Protocol):
    """What building needs: builders, and the builds of earlier runs."""

    @property
    def target(self) -> Device:
        """The device to build for."""

    @property
    def pool(self) -> Builders:
        """The build workers."""

    @property
    def artifacts(self) -> ArtifactStore:
        """The store of machine code."""

    @property
    def ledger(self) -> Ledger:
        """The records of earlier builds."""


def identity_of(context: BuildContext, candidate: Candidate) -> str:
    """The identity of what a candidate is built from and for, apart from its config."""
    return build_identity(candidate.problem, find_solver(candidate.solver), context.target)


class BuildQueue:
    """The builds of one study run. Candidates that differ only in run-time settings share a build.

    With `cached_only` nothing is built: the machine code must be in the store.
    """

    def __init__(self, context: BuildContext, *, cached_only: bool = False) -> None:
        self._context = context
        self._pool = None if cached_only else context.pool
        self._offers: dict[str, tuple[BuildingSolver, Space]] = {}
        self._finished: dict[_Part, Build] = {}
        self._waiting: dict[_Part, list[Candidate]] = {}
        self._ready: deque[Build] = deque()
        self._machine = machine_name()
        self._retries = RETRY_FAILED_BUILDS.text() == "on"

    def add_solver(self, solver: BuildingSolver, space: Space) -> None:
        """Accept builds of this solver from now on."""
        self._offers[solver.name] = (solver, space)

    def knows(self, solver: str) -> bool:
        """Whether builds of this solver are accepted."""
        return solver in self._offers

    def submit(self, candidate: Candidate) -> None:
        """Request a build, which `collect` returns when it is done."""
        part = self._part(candidate)
        if part in self._finished:
            self._ready.append(self._shared(self._finished[part], candidate))
        elif part in self._waiting:
            self._waiting[part].append(candidate)
        elif self._pool is None:
            known = self.cached_build(candidate)
            if known is None:
                raise MissingCodeError(f"the machine code of {candidate.key} is missing")
            self._ready.append(known)
        elif known := self._known(candidate) or self._known_failure(candidate):
            self._finished[part] = known
            self._ready.append(known)
        else:
            self._waiting[part] = [candidate]
            self._pool.submit(candidate)

    @property
    def pending(self) -> int:
        """Builds that were not collected yet."""
        return sum(len(sharers) for sharers in self._waiting.values()) + len(self._ready)

    def collect(self, timeout_s: float, most: int) -> list[Build]:
        """Up to `most` finished builds, waiting up to this long for the first."""
        wait_s = 0.0 if self._ready else timeout_s
        for build in self._pool.poll(wait_s) if self._pool else []:
            part = self._part(build.candidate)
            self._finished[part] = build
            for candidate in self._waiting.pop(part, []):
                own = candidate == build.candidate
                self._ready.append(build if own else self._shared(build, candidate))
        return [self._ready.popleft() for _ in range(min(most, len(self._ready)))]

    def withdraw(self) -> None:
        """Forget all requests. Builds that have begun continue, and may be requested again."""
        for candidate in self._pool.withdraw() if self._pool else []:
            self._waiting.pop(self._part(candidate), None)
        for sharers in self._waiting.values():
            sharers.clear()
        self._ready.clear()

    def cancel(self) -> None:
        """Forget all requests, and end builds that a worker has begun."""
        if self._pool:
            self._pool.cancel()
        self._waiting.clear()
        self._ready.clear()

    def keep(self, build: Build, write: WriteBuild) -> str:
        """Store a build's machine code and record the build; returns the code's digest."""
        context, candidate, digest = self._context, build.candidate, build.artifact_digest
        if build.artifact is not None:
            digest = context.artifacts.put(build.artifact)
        if build.source_digest:
            solver, _ = self._offers[candidate.solver]
            key = CandidateKey.of(candidate, solver.version)
            write(self._record(build, digest), key, identity=identity_of(context, candidate))
        return digest

    def _record(self, build: Build, digest: str) -> BuildRecord:
        context, compat = self._context, self._context.target.compat_key
        known = build.known
        if known is None and build.cached:
            known = context.ledger.find_source(build.source_digest, compat)
        return known or BuildRecord(
            build.source_digest,
            compat,
            build.status,
            artifact_digest=digest or None,
            symbol=build.symbol,
            abi=build.abi,
            reason=build.reason,
            seconds=build.seconds,
            resources=build.resources,
            compiler=build.compiler,
            target=build.target,
            machine=self._machine,
        )

    def _part(self, candidate: Candidate) -> _Part:
        _, space = self._offers[candidate.solver]
        config = candidate.config
        part = space.build_part(config) if isinstance(space, Staged) else config
        return candidate.solver, part.key

    def _slots(self, candidate: Candidate) -> tuple[Slot, ...]:
        solver, _ = self._offers[candidate.solver]
        with foreign_code(f"solver {solver.name} asked for the slots of {candidate.config}"):
            return tuple(solver.slots(candidate.problem, self._context.target, candidate.config))

    def _shared(self, build: Build, candidate: Candidate) -> Build:
        slots = self._slots(candidate)
        return replace(build, candidate=candidate, slots=slots, cached=True, seconds=0.0)

    def _known(self, candidate: Candidate) -> Build | None:
        """A build that this compiler made in an earlier run."""
        known = self.cached_build(candidate)
        return known if known and self._is_current(candidate, known) else None

    def _known_failure(self, candidate: Candidate) -> Build | None:
        """The failure of this compiler in an earlier run, perhaps of another machine."""
        record = None if self._retries else self._recorded(candidate)
        if record is None or not record.lasting or not self._is_current(candidate, record):
            return None
        return known_failure(candidate, record)

    def _is_current(self, candidate: Candidate, known: Build | BuildRecord) -> bool:
        """Whether the same compiler would be given the same source now."""
        solver, _ = self._offers[candidate.solver]
        if known.compiler != solver.compiler():
            return False
        return not isinstance(solver, SourceAware) or solver.same_source(
            *(candidate.problem, self._context.target, candidate.config),
            *(known.source_digest, known.compiler),
        )

    def _recorded(self, candidate: Candidate) -> BuildRecord | None:
        """The record of the candidate's build; one that succeeded, if there is one."""
        solver, _ = self._offers[candidate.solver]
        key = CandidateKey.of(candidate, solver.version)
        context = self._context
        identity = identity_of(context, candidate)
        return context.ledger.find_build(key, identity, context.target.compat_key)

    def cached_build(self, candidate: Candidate) -> Build | None:
        """A build of an earlier run, if its machine code is still in the store."""
        record = self._recorded(candidate)
        if record is None or record.status.failed or not record.artifact_digest:
            return None
        try:
            data = self._context.artifacts.get(record.artifact_digest)
        except StorageError as error:
            log.info("building again: %s", error)
            return None
        return Build(
            candidate,
            record.status,
            source_digest=record.source_digest,
            artifact=data,
            artifact_digest=record.artifact_digest,
            symbol=record.symbol,
            abi=record.abi,
            slots=self._slots(candidate),
            resources=record.resources,
            compiler=record.compiler,
            target=record.target,
            cached=True,
        )
