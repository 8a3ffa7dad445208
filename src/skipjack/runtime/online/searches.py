"""Whether a lookup starts a search, and its answer then.

Nothing here makes a program fail: errors are counted, one warning is logged, and the answer found
without a search is used.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from skipjack.errors import SkipjackError, StorageError
from skipjack.runtime.online.client import (
    FAILED,
    FIND,
    LATE,
    PROPOSE,
    TUNE,
    PendingSearch,
    SearchAnswer,
    SearchRequest,
    numbers,
    tuning_process,
)
from skipjack.runtime.online.kernel_times import CallMeter, account_of_program, sampled
from skipjack.runtime.online.tuning_lock import is_recording
from skipjack.runtime.process import (
    ALL_CLASSES,
    CLEAN,
    DYNAMIC_HYBRID,
    EXHAUSTIVE,
    INCREMENTAL,
    NORMAL,
    REFRESH,
    TuningPolicy,
    warn_once,
)

if TYPE_CHECKING:
    from skipjack.runtime.answers import LookupAnswer, LookupDecision, Question
    from skipjack.settings import Settings


log = logging.getLogger(__name__)

DEFAULT_SECONDS = 5.0
"""The limit `tune_seconds`, if the settings file does not set it."""
_MOST_LATE = 3
"""How often a search that did not start in time is requested again."""

counts: Counter[str] = Counter()
"""Outcomes of searches in this process: ``searched``, ``joined``, ``late``, ``failed``,
``recording`` (a graph), ``background``; and ``cleaned`` problems."""


@dataclass(slots=True)
class _Asked:
    """A search that this process has requested."""

    pending: PendingSearch
    deadline: float | None
    """When lookups stop waiting for it; None if they do not wait."""
    late: int = 0
    """How often earlier searches of it ran out of time."""


_asked: dict[tuple[str, ...], _Asked] = {}
_failures: dict[tuple[str, str], str] = {}
"""By problem and device: why there was no search, or why it failed."""
_meters: dict[Path, CallMeter] = {}
_changing = threading.Lock()


def _forget() -> None:
    """In a forked child, which will start its own tuning process."""
    global _changing
    _changing = threading.Lock()
    _asked.clear()
    _failures.clear()
    _meters.clear()


os.register_at_fork(after_in_child=_forget)


def tune_in_program(
    question: Question, found: LookupDecision, policy: TuningPolicy
) -> LookupDecision:
    """The decision found so far, or a better one if the policy asks for a search that ends in time.

    A search in the background ends later: then the bank has its result.
    """
    try:
        if policy.mode == CLEAN:
            return _cleaned(question) or found
        if policy.background and found.answer is not None:
            meter = _meter(question.settings.user_dir)
            sampled(found.answer.kernel, meter, on_gpu=question.device.kind != "cpu")
        verb = search_verb(question, found.answer, policy)
        if verb is None:
            return found
        if is_recording():
            counts["recording"] += 1
            warn_once(log, "a problem first looked up during graph capture is not tuned then")
            return replace(found, lasting=False)
        return _searched(question, found, policy, verb)
    except Exception as error:  # the program has an answer in any case
        told = isinstance(error, SkipjackError)
        reason = str(error) if told else f"{type(error).__name__}: {error}"
        _failed(question, reason)
        return found


def search_verb(
    question: Question, answer: LookupAnswer | None, policy: TuningPolicy
) -> str | None:
    """The kind of search to request; None if there is nothing to search."""
    if _searcher(question, policy) is None:
        return None
    unknown = answer is None or not answer.is_banked
    if policy.mode == REFRESH and answer is not None:
        unknown = unknown or _is_stale(question, answer)
    if policy.mode == EXHAUSTIVE:
        return TUNE
    if policy.mode in (INCREMENTAL, REFRESH):
        return TUNE if unknown else None
    if not policy.finds or (not unknown and policy.find_mode != NORMAL):
        return None
    return PROPOSE if policy.find_mode == DYNAMIC_HYBRID else FIND


def _searcher(question: Question, policy: TuningPolicy) -> str | None:
    """The searcher; None if operations of this class are not tuned."""
    if policy.searchers == ALL_CLASSES:
        return "auto"
    from skipjack.operations import get

    return policy.searcher_for(get(question.problem.operation).operation_class)


def search_of(problem: str, device: str) -> SearchAnswer | None:
    """The answer to this process's last search for a problem, if the search has ended."""
    with _changing:
        asked = [one for key, one in _asked.items() if key[:2] == (problem, device)]
    return asked[-1].pending.answer if asked else None


def is_asked_for(problem: str, device: str) -> bool:
    """Whether this process has requested a search for a problem, or failed to."""
    with _changing:
        return (problem, device) in _failures or any(key[:2] == (problem, device) for key in _asked)


def failure_of(problem: str, device: str) -> str:
    """Why a search by this process failed; empty if it did not, or has not ended."""
    return _failures.get((problem, device), "")


def _is_stale(question: Question, answer: LookupAnswer) -> bool:
    """Whether the answer's entry was measured with another compiler or driver."""
    from skipjack.runtime.local_kernels import why_stale

    problem, device = question.problem.key, question.device.class_key
    entries = [
        entry
        for layer in question.layers
        if layer.name == answer.source
        for entry in layer.ranked(problem, device, protocol=question.protocol)
    ]
    held = answer.kernel.solver, dict(answer.config)
    return any(why_stale(one) for one in entries if (one.solver, dict(one.config)) == held)


def forecast(question: Question, answer: LookupAnswer | None, policy: TuningPolicy) -> str:
    """A description of what `tune_in_program` would do in a program."""
    if policy.mode == CLEAN:
        if not _is_held(question):
            return "a program would find nothing to remove in the user's bank"
        return (
            "a program would remove the entries of this problem and device from the user's bank, "
            "and use the next answer"
        )
    verb = search_verb(question, answer, policy)
    if verb is None:
        return "a program would not search, because a bank knows the problem"
    seconds = policy.seconds or _default_seconds(question.settings)
    what = "tune it" if verb == TUNE else "rank its solvers"
    if policy.background:
        return f"a program would use this, and {what} in the background"
    return f"a program would first {what}, in at most {seconds:g} s, and then use the best result"


def _is_held(question: Question) -> bool:
    """Whether the user's bank has an entry of the problem for the device."""
    from skipjack.bank import FIND as RANKING
    from skipjack.bank import PERF, Bank

    place = question.problem.key, question.device.class_key
    bank = Bank.open(question.settings.user_dir)
    return any(bank.ranked(*place, kind, question.protocol) for kind in (PERF, RANKING))


def _cleaned(question: Question) -> LookupDecision | None:
    """The answer after removing the user bank's entries; None if there was nothing to remove."""
    from skipjack.bank import Bank
    from skipjack.runtime.answers import decide

    place = question.problem.key, question.device.class_key
    try:
        if not _is_held(question):
            return None
        bank = Bank.open(question.settings.user_dir)
        bank.clean(lambda entry: (entry.problem, entry.device) == place)
    except SkipjackError as error:
        counts["failed"] += 1
        warn_once(
            log,
            f"cannot remove the entry of {question.problem.key} from the user bank: {error}",
            about="an entry was not removed",
        )
        return None
    counts["cleaned"] += 1
    return decide(question)


def _searched(
    question: Question, found: LookupDecision, policy: TuningPolicy, verb: str
) -> LookupDecision:
    """The answer after the search, or the previous one if it does not end in time."""
    _check_disk(question.settings)
    seconds = policy.seconds or _default_seconds(question.settings)
    until = question.asked_at + policy.starting_s + seconds
    deadline = None if policy.background else until
    request = _request(question, policy, verb, seconds, deadline)
    process = tuning_process()
    key = (*request.key, policy.key)
    with _changing:
        asked = _asked.get(key)
        if asked is None or _may_begin_again(asked):
            late = asked.late + 1 if asked else 0
            _failures.pop((question.problem.key, question.device.name), None)
            asked = _asked[key] = _Asked(process.search(request), deadline, late)
            counts["background" if policy.background else "searched"] += 1
        elif asked.pending.answer is not None:
            return found  # it was searched before
        else:
            counts["joined"] += 1
    if policy.background:
        return found
    answer = asked.pending.wait(asked.deadline)
    if answer is None or answer.status == LATE:
        _late(question.problem.key, seconds, answer.reason if answer else "")
        return replace(found, lasting=answer is None)
    if answer.status == FAILED:
        _failed(question, answer.reason)
        return found
    return _again(question) or found


def _check_disk(settings: Settings) -> None:
    """`StorageError` if the disk of the user directory has too little free space for a search."""
    place = settings.user_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        free = shutil.disk_usage(place).free
    except OSError:
        return
    if free < settings.free_disk:
        raise StorageError(
            f"{settings.user_dir} has {free / 1e9:,.2f} GB free, but SKIPJACK_FREE_DISK requires "
            f"{settings.free_disk / 1e9:,.2f} GB; free some space, or set it lower"
        )


def _default_seconds(settings: Settings) -> float:
    """The limit in the settings file; the tuning process reports an invalid value."""
    given = settings.limits.get("tune_seconds")
    right = isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < inf
    return float(given) if right else DEFAULT_SECONDS  # type: ignore[arg-type]


def _may_begin_again(asked: _Asked) -> bool:
    """Whether it did not start in time: by now, all processes are running."""
    answer = asked.pending.answer
    return answer is not None and answer.status == LATE and asked.late < _MOST_LATE


def _again(question: Question) -> LookupDecision | None:
    """The decision by the banks as they are now."""
    from skipjack.runtime.answers import decide

    found = decide(question)
    return found if found.answer is not None and found.answer.is_banked else None


def _request(
    question: Question, policy: TuningPolicy, verb: str, seconds: float, deadline: float | None
) -> SearchRequest:
    settings = question.settings
    account = account_of_program(settings.user_dir).path if policy.background else None
    return SearchRequest(
        id=next(numbers),
        problem=question.problem.key,
        device=question.device.name,
        user_dir=str(settings.user_dir),
        plugins=settings.plugins,
        build_workers=settings.build_workers,
        core=settings.core,
        verb=verb,
        seconds=seconds,
        deadline=deadline,
        # The time before the banks were read: later results may not have been in them.
        asked_at=time.time() - (time.monotonic() - question.asked_at),
        retune=policy.mode == EXHAUSTIVE,
        account=str(account) if account else None,
        regret=policy.regret,
        protocol=question.protocol,
        searcher=_searcher(question, policy) or "auto",
    )


def _meter(user_dir: Path) -> CallMeter:
    with _changing:
        if user_dir not in _meters:
            _meters[user_dir] = CallMeter(account_of_program(user_dir))
        return _meters[user_dir]


def _late(problem: str, seconds: float, reason: str) -> None:
    counts["late"] += 1
    why = reason or "the result of the search is used as soon as it is known"
    warn_once(
        log,
        f"{problem}: {seconds:g} s were not enough to tune it, and the program continues: {why}",
        about="a search in a program was late",
    )


def _failed(question: Question, reason: str) -> None:
    counts["failed"] += 1
    problem = question.problem.key
    _failures[problem, question.device.name] = reason
    warn_once(
        log,
        f"{problem} cannot be tuned in this program, which continues untuned: {reason}",
        about="a search in a program failed",
    )
