"""The configs that a call may choose from, a list or a space, and what is known about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skipjack.bank import BankEntry
from skipjack.core import Budget, Config, ParameterSpace, Problem, Space, Study, Trial
from skipjack.integrations.triton.configs import ListedSpace, Search, config_text, to_triton
from skipjack.integrations.triton.identity import digest
from skipjack.integrations.triton.results import (
    SEARCHED,
    SOLVER,
    TRIED,
    VERSION,
    AutotunePlace,
    KnownCall,
)
from skipjack.search import LIST_UP_TO, SearchContext, applicable_searcher, check_name
from skipjack.tuning.calls import CallSearch

_TRIALS = 128
"""Trials in a large space if the user sets no limit."""
_SHORT = 8


@dataclass(frozen=True, slots=True)
class CallDecision:
    """The config to launch with, and the known results of all."""

    best: Any
    times_ms: Mapping[Any, float] = field(default_factory=dict)
    failures: Mapping[Any, str] = field(default_factory=dict)
    fresh: bool = False
    """Whether configs were timed for it."""


class CallChoices(ABC):
    """The configs of a call, and their translation to and from banks and ledgers."""

    study: Study
    """A list has one study even if it grows; a space has one as long as it stays the same."""
    default: Config
    space: Space
    budget: Budget
    all = False
    """Whether all configs are tried, even after the seconds of the budget."""

    @abstractmethod
    def triton(self, config: Config) -> Any:
        """The ``triton.Config`` of a config."""

    def banked_as(self, config: Config) -> Config:
        """All settings of a config, including Triton's defaults."""
        return Config.from_key(config_text(self.triton(config)))

    @abstractmethod
    def own(self, settings: Config) -> Config | None:
        """Our config with these settings; None if there is none."""

    @abstractmethod
    def is_searched(self, known: KnownCall) -> bool:
        """Whether all configs were tried."""

    @abstractmethod
    def evidence(self, tried: Sequence[Config]) -> Mapping[str, Any]:
        """The evidence of a bank's entry about the configs that were tried."""

    def wish(self, problem: Problem, known: KnownCall, *, again: bool) -> CallSearch:
        """The search to run; with `again`, earlier trials are ignored."""
        return CallSearch(
            problem,
            SOLVER,
            VERSION,
            self.study,
            self.space,
            self.default,
            self.budget,
            self.all,
            () if again else self.trials(known),
            known.is_earlier and not again,
            again,
            self.held(known),
            self.banked_as,
            self.evidence,
        )

    def held(self, known: KnownCall) -> tuple[Config, BankEntry] | None:
        """The bank's config with its entry, if it is one of ours."""
        for entry in known.entries:
            if (config := self.own(Config(dict(entry.config)))) is not None:
                return config, entry
        return None

    def trials(self, known: KnownCall) -> tuple[Trial, ...]:
        """The trials of our configs."""
        return tuple(
            replace(trial, config=config)
            for trial in known.trials
            if (config := self.own(trial.config)) is not None
        )

    def settled(self, known: KnownCall) -> Config | None:
        """The config to use without a search; None if configs remain to be tried."""
        return self.best(known) if self.is_searched(known) else None

    def best(self, known: KnownCall, *, unconfirmed: bool = False) -> Config | None:
        """The config of the bank, of the latest verdict, or the fastest of an earlier version."""
        if held := self.held(known):
            return held[0]
        chosen = (self.own(settings) for settings in known.verdicts)
        if (config := next(filter(None, chosen), None)) is not None:
            return config
        if not (known.is_earlier or unconfirmed):
            return None
        timed = [(t.value, t.config) for t in self.trials(known) if t.value is not None]
        return min(timed, key=lambda one: one[0])[1] if timed else None

    def decision(self, known: KnownCall, best: Config) -> CallDecision:
        """A decision without new measurements."""
        trials, held = self.trials(known), self.held(known)
        times = {held[0]: held[1].time_ns} if held else {}
        times |= {trial.config: trial.value for trial in trials if trial.value is not None}
        failed = {trial.config: trial.reason for trial in trials if trial.status.failed}
        return self.made(best, times, failed, fresh=False)

    def made(
        self,
        best: Config,
        times_ns: Mapping[Config, float],
        reasons: Mapping[Config, str],
        *,
        fresh: bool = True,
    ) -> CallDecision:
        """A decision, with configs as ``triton.Config``."""
        return CallDecision(
            self.triton(best),
            {self.triton(config): ns / 1e6 for config, ns in times_ns.items()},
            {self.triton(config): reason for config, reason in reasons.items()},
            fresh,
        )


class ListedChoices(CallChoices):
    """A list of configs, all of which are tried."""

    all = True

    def __init__(self, place: AutotunePlace, configs: Sequence[Any], seconds: float | None) -> None:
        self.configs = {Config.from_key(config_text(one)): one for one in configs}
        self.space: ListedSpace = ListedSpace(list(self.configs))
        self.default = self.space.default()
        self.study = _study(place, "exhaustive", 0, "list")
        self.budget = Budget(seconds=seconds)

    def triton(self, config: Config) -> Any:
        return self.configs[config]

    def banked_as(self, config: Config) -> Config:
        return config

    def own(self, settings: Config) -> Config | None:
        return settings if settings in self.configs else None

    def is_searched(self, known: KnownCall) -> bool:
        """Whether the study's trials or the bank's entry include every config."""
        told = {trial.config for trial in known.trials}
        held = self.held(known)
        tried = held[1].evidence.get(TRIED) if held else None
        tried_digests = set(map(str, tried)) if isinstance(tried, list) else set()
        return all(config in told or _short(config) in tried_digests for config in self.configs)

    def evidence(self, tried: Sequence[Config]) -> Mapping[str, Any]:
        return {TRIED: sorted({_short(config) for config in tried})}


class SpaceChoices(CallChoices):
    """A space, which is searched once for each budget."""

    def __init__(self, place: AutotunePlace, space: ParameterSpace, search: Search) -> None:
        self.space: ParameterSpace = space
        self.default = space.default()
        trials = search.budget.trials
        if trials is None and search.budget.seconds is None and space.count() > LIST_UP_TO:
            trials = _TRIALS
        self.budget = Budget(trials, search.budget.seconds)
        name, _ = applicable_searcher(search.searcher, SearchContext(space, search.seed, trials))
        self.study = _study(place, name, search.seed, space.digest)
        self.searched = Config.of(
            {
                "searched": space.digest,
                "by": check_name(search.searcher),
                "trials": search.budget.trials,
                "seconds": search.budget.seconds,
            }
        ).key
        self._names = [parameter.name for parameter in space.parameters]

    def triton(self, config: Config) -> Any:
        return to_triton(config)

    def own(self, settings: Config) -> Config | None:
        if any(name not in settings for name in self._names):
            return None
        config = Config({name: settings[name] for name in self._names})
        if not self.space.contains(config):
            return None
        return config if settings in (config, self.banked_as(config)) else None

    def is_searched(self, known: KnownCall) -> bool:
        return self.searched in known.searched

    def evidence(self, tried: Sequence[Config]) -> Mapping[str, Any]:
        return {SEARCHED: self.searched}


def _study(place: AutotunePlace, searcher: str, seed: int, space: str) -> Study:
    device = place.device.class_key
    return Study(place.problem, SOLVER, device, searcher, seed, space, protocol=place.protocol)


def _short(config: Config) -> str:
    return digest(config.key)[:_SHORT]
