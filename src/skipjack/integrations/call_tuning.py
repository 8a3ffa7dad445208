"""Tuning one call of a kernel: what is known is not timed again, what is new runs beside the best.

Listed configs are tried all at once; a space is searched batch by batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skipjack.core.config import Config
from skipjack.core.parameters import ParameterSpace
from skipjack.core.trial import Status, Trial
from skipjack.errors import MalformedError, SkipjackError
from skipjack.integrations.autotune_results import AutotuneResults, KnownConfigs
from skipjack.integrations.outcomes import Outcome
from skipjack.integrations.trials import ConfigBench
from skipjack.integrations.triton_autotune import Search
from skipjack.integrations.triton_configs import config_text, to_triton
from skipjack.integrations.tuned_call import TunedCall
from skipjack.reading import read_json
from skipjack.search import LIST_UP_TO, SearchContext, Searcher, check_name, create

_BATCH = 32
"""Configs of a large space that are built and raced at once."""
_TRIALS = 128
"""Of a large space whose user set no limit."""


@dataclass(frozen=True, slots=True)
class CallDecision:
    """What tuning came to."""

    best: Any
    times_ms: Mapping[Any, float] = field(default_factory=dict)
    failures: Mapping[Any, str] = field(default_factory=dict)
    fresh: bool = False
    """Whether anything was timed for it."""


def decide(configs: Mapping[str, Any], known: KnownConfigs, fresh: bool = False) -> CallDecision:
    """The fastest that is known; the first config where nothing is."""
    first = next(iter(configs.values()))
    best = known.leader(configs)
    return CallDecision(
        configs[best] if best is not None else first,
        {one: known.times_ns[t] / 1e6 for t, one in configs.items() if t in known.times_ns},
        {one: known.failures[t].reason for t, one in configs.items() if t in known.failures},
        fresh,
    )


def decide_in(space: ParameterSpace, known: KnownConfigs, fresh: bool = False) -> CallDecision:
    """The fastest that is known of a space; its default where nothing is."""
    configs = {text: to_triton(config) for text, config in known_of(space, known).items()}
    return decide(configs or {"": to_triton(space.default())}, known, fresh)


@dataclass(frozen=True, slots=True)
class CallTuning:
    """One call: what is launched, how it is timed, where results go."""

    call: TunedCall
    bench: ConfigBench
    results: AutotuneResults

    def listed(self, configs: Mapping[str, Any]) -> CallDecision:
        """Try all that are not known."""
        known = self.results.known()
        missing = [t for t in configs if t not in known.times_ns and t not in known.failures]
        if missing:
            known = self._try({text: configs[text] for text in missing}, configs, known)
        if known.leader(configs) is None:
            raise SkipjackError(self._nothing_runs(configs, known))
        return decide(configs, known, fresh=bool(missing))

    def _nothing_runs(self, configs: Mapping[str, Any], known: KnownConfigs) -> str:
        name = self.call.name
        if not configs:
            return f"no config of {name} is left after pruning: let it leave at least one"
        reasons = (f"{t}: {known.failures[t].reason}" for t in configs if t in known.failures)
        return f"no config of {name} can be run; {next(reasons, 'none was timed')}"

    def search(self, search: Search, space: ParameterSpace) -> CallDecision:
        """Look through a space, once for each budget; later calls take what was found."""
        known = self.results.known()
        budget = search.budget
        mark = Config.of(
            {
                "searched": space.digest,
                "by": check_name(search.searcher),
                "trials": budget.trials,
                "seconds": budget.seconds,
            }
        ).key
        fresh = mark not in known.marks
        if fresh:
            known = self._search(search, space, known)
            self.results.mark(mark)
        return decide_in(space, known, fresh)

    def _search(self, search: Search, space: ParameterSpace, known: KnownConfigs) -> KnownConfigs:
        searcher = _searcher(search, space, known)
        while not searcher.done:
            batch = {config_text(to_triton(c)): c for c in searcher.ask(_BATCH)}
            if not batch:
                break
            configs = {text: to_triton(config) for text, config in batch.items()}
            others = {text: to_triton(config) for text, config in known_of(space, known).items()}
            known = self._try(configs, others, known)
            for text, config in batch.items():
                searcher.tell(_trial(config, text, known))
            if self.bench.out_of_time():
                break
        return known

    def _try(
        self, new: Mapping[str, Any], others: Mapping[str, Any], known: KnownConfigs
    ) -> KnownConfigs:
        """Time new configs beside the leader, whose time is the scale of theirs."""
        leader = known.leader(others)
        beside = {leader: others[leader]} if leader is not None else {}
        found = self.bench.try_all(self.call, {**beside, **new})
        self.results.keep(found.samples_ns, found.failures)
        return found.added_to(self.results.known())


def known_of(space: ParameterSpace, known: KnownConfigs) -> dict[str, Config]:
    """The configs of a space that were timed or failed, by their texts."""
    names = [parameter.name for parameter in space.parameters]
    configs = {}
    for text in (*known.times_ns, *known.failures):
        settings = _settings(text)
        if all(name in settings for name in names):
            config = Config({name: settings[name] for name in names})
            if space.contains(config) and config_text(to_triton(config)) == text:
                configs[text] = config
    return configs


def _settings(text: str) -> Mapping[str, Any]:
    """What a ledger has as a config; a row of others may be none, which fits no space."""
    try:
        return read_json(text).mapping()
    except MalformedError:
        return {}


def _searcher(search: Search, space: ParameterSpace, known: KnownConfigs) -> Searcher:
    trials = search.budget.trials
    if trials is None and search.budget.seconds is None and space.count() > LIST_UP_TO:
        trials = _TRIALS
    told = tuple(_trial(config, text, known) for text, config in known_of(space, known).items())
    context = SearchContext(space, search.seed, trials, known=told)
    return create(search.searcher, context)


def _trial(config: Config, text: str, known: KnownConfigs) -> Trial:
    if text in known.times_ns:
        return Trial(config, value=known.times_ns[text])
    failure = known.failures.get(text, Outcome(Status.ERROR, "was not timed"))
    return Trial(config, failure.status, reason=failure.reason)
