"""The searcher ``optuna``: samplers of Optuna behind the interface of searchers.

A parameter of numbers is an integer to Optuna, the rank of its value; one of texts is a category.
Values are told as logarithms of ratios. Optuna knows nothing of a space's constraints: an illegal
config that it suggests is told back as infeasible and never requested, and so is one that failed;
one whose trial is known is told again. After some suggestions of that kind in a row, a random new
config is requested instead.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from skipjack.core import Config, Parameter, Pinnable, Trial, Value, did_you_mean
from skipjack.errors import UsageError
from skipjack.search.generator import Ask, Batches, GeneratorSearcher
from skipjack.search.searcher import Bounds, SearchContext, cost, worsening

_SUGGESTIONS = {"tpe": 16, "gp": 4, "cmaes": 8}
"""By sampler: suggestions in a row that cannot be requested, before a random config is.

Those of a Gaussian process take long, the longer, the more trials it has been told.
"""
_LEGAL = "legal"
_INSTALL = "pip install 'skipjack[optuna]'"


class OptunaSearch(GeneratorSearcher):
    """Configs that a sampler of Optuna suggests, after the default and the seeds.

    Akiba et al., Optuna: A Next-generation Hyperparameter Optimization Framework, KDD 2019.

    Args:
        context: what to search; a space of parameters.
        sampler: ``tpe`` (a tree-structured Parzen estimator), ``gp`` (a Gaussian process; needs
            PyTorch) or ``cmaes`` (CMA-ES; it draws parameters of texts at random).
        startup: how many configs are drawn at random first; 0 for the sampler's own number.

    Example::

        tune("matmul:512x512x512", searcher="optuna:tpe")
        tune("matmul:512x512x512", searcher="optuna:gp,startup=20")
    """

    def __init__(
        self,
        context: SearchContext,
        *,
        sampler: str = "tpe",
        startup: Annotated[int, Bounds(0, 10_000)] = 0,
    ) -> None:
        if reason := self.refuses(context, sampler=sampler, startup=startup):
            raise UsageError(f"the searcher optuna cannot be used: {reason}")
        super().__init__(self._suggest, context)
        self._tries = _SUGGESTIONS[sampler]
        self._constrained = sampler != "cmaes"
        assert isinstance(context.space, Pinnable)
        self._parameters = [_sorted(name, one) for name, one in context.space.choices().items()]
        self._optuna = _imported("optuna")
        self._distributions = {
            one.name: self._distribution(one) for one in self._parameters if len(one.values) > 1
        }
        with self._quiet():
            made = _sampler(sampler, startup, int(self.rng.integers(2**31)))
            self._study = self._optuna.create_study(sampler=made)
        self._pending: dict[str, Any] = {}
        """Optuna's trials of configs that were requested, by the config's key."""
        self._first: float | None = None
        self._worst = 0.0

    @staticmethod
    def refuses(context: SearchContext, *, sampler: str = "tpe", startup: int = 0) -> str:
        """Why it cannot search a space; empty if it can."""
        if sampler not in _SUGGESTIONS:
            names = ", ".join(_SUGGESTIONS)
            hint = did_you_mean(sampler, _SUGGESTIONS)
            raise UsageError(f"unknown sampler {sampler!r} of Optuna; there are {names}{hint}")
        if not isinstance(context.space, Pinnable):
            return "Optuna suggests values of parameters, and this space has none"
        _imported("optuna")
        return ""

    def _suggest(self, context: SearchContext) -> Batches:
        trials: Sequence[Trial] = context.known
        while True:
            with self._quiet():
                for trial in trials:
                    self._learn(trial)
                config = self._suggestion() or self.fresh.draw()
            if config is None:
                return
            trials = yield Ask([config], wait=False)

    def _suggestion(self) -> Config | None:
        """A new legal config; None if Optuna suggests none."""
        for _ in range(self._tries):
            suggested = self._study.ask(self._distributions)
            config = self._config(suggested.params)
            key = self.space.key(config)
            if not self.space.contains(config):
                self._tell(suggested, None)
            elif key in self.trials:
                self._tell(suggested, self.trials[key])
            elif key in self.seen:  # its trial is awaited
                self._study.tell(suggested, state=self._optuna.trial.TrialState.FAIL)
            else:
                self._pending[key] = suggested
                return config
        return None

    def _learn(self, trial: Trial) -> None:
        """Tell Optuna about a trial, whether it suggested the config or not."""
        suggested = self._pending.pop(self.space.key(trial.config), None)
        if suggested is not None:
            self._tell(suggested, trial)
            return
        value, legal = self._value(trial), not math.isinf(cost(trial))
        known = self._optuna.trial.create_trial(
            value=value,
            params=self._ranks(trial.config),
            distributions=self._distributions,
            constraints={_LEGAL: _violation(legal)} if self._constrained else None,
        )
        self._study.add_trial(known)

    def _tell(self, suggested: Any, trial: Trial | None) -> None:
        if self._constrained:
            legal = trial is not None and not math.isinf(cost(trial))
            suggested.set_constraint(_LEGAL, _violation(legal))
        self._study.tell(suggested, self._value(trial))

    def _value(self, trial: Trial | None) -> float:
        """The logarithm of a value's ratio to the first; what failed is worse than all others."""
        found = math.inf if trial is None else cost(trial)
        if math.isinf(found):
            return self._worst + 1.0
        if self._first is None:
            self._first = found
        value = worsening(self._first, found)
        self._worst = max(self._worst, value)
        return value

    def _config(self, suggested: dict[str, Any]) -> Config:
        return Config(
            {
                one.name: _value_of(one, suggested[one.name])
                if one.name in suggested
                else one.values[0]
                for one in self._parameters
            }
        )

    def _ranks(self, config: Config) -> dict[str, Any]:
        return {
            one.name: config[one.name] if _is_text(one) else one.values.index(config[one.name])
            for one in self._parameters
            if one.name in self._distributions
        }

    def _distribution(self, parameter: Parameter) -> Any:
        kinds = self._optuna.distributions
        if _is_text(parameter):
            return kinds.CategoricalDistribution(parameter.values)
        return kinds.IntDistribution(0, len(parameter.values) - 1)

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Without Optuna's messages about each trial, and warnings that concern its own users."""
        logging = self._optuna.logging
        before = logging.get_verbosity()
        logging.set_verbosity(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            logging.set_verbosity(before)


def _sampler(name: str, startup: int, seed: int) -> Any:
    samplers = _imported("optuna").samplers
    given: dict[str, Any] = {"seed": seed}
    if startup:
        given["n_startup_trials"] = startup
    if name == "tpe":
        return samplers.TPESampler(**given)
    if name == "gp":
        for needed in ("scipy", "torch"):
            _imported(needed)
        return samplers.GPSampler(warn_independent_sampling=False, **given)
    _imported("cmaes")
    return samplers.CmaEsSampler(warn_independent_sampling=False, **given)


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        extra = "pip install 'skipjack[torch]'" if module == "torch" else _INSTALL
        what = "Optuna" if module == "optuna" else f"{module} for this sampler of Optuna"
        raise UsageError(f"this searcher needs {what}, which is not installed: {extra}") from None


def _sorted(name: str, values: Sequence[Value]) -> Parameter:
    """A parameter with its values in the order of their ranks."""
    parameter = Parameter(name, tuple(values))
    ranks = parameter.ranks()
    return Parameter(name, tuple(v for _, v in sorted(zip(ranks, values, strict=True))))


def _is_text(parameter: Parameter) -> bool:
    return isinstance(parameter.values[0], str)


def _value_of(parameter: Parameter, suggested: Any) -> Value:
    value: Value = suggested if _is_text(parameter) else parameter.values[suggested]
    return value


def _violation(legal: bool) -> float:
    """Optuna calls a trial feasible if all of its constraints are at most 0."""
    return 0.0 if legal else 1.0
