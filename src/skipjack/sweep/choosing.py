"""Who decides what to run next: the file's own search, a searcher by name, or all combinations."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skipjack.core.config import Config
from skipjack.core.parameter import Parameter
from skipjack.core.parameters import ParameterSpace
from skipjack.core.trial import Trial
from skipjack.errors import UsageError
from skipjack.search import SearchContext, Searcher, check_name, create
from skipjack.search.scripted import CartesianProduct, ScriptedSearcher, SearcherInterface
from skipjack.sweep.files.sweep_file import ALL, Scalar, SweepFile
from skipjack.sweep.search_loop import Refusal

_LARGEST_FILTERED = 200_000
"""Up to so many combinations the rule is applied to all first; beyond, to each that is asked."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A searcher, and what is known of it beforehand."""

    searcher: Searcher
    name: str
    planned: int | None
    own: SearcherInterface | None = None
    """The search as the file's author wrote it; it may know itself which point is best."""
    at_most: bool = True
    """Whether it may take fewer."""


def choose_search(
    file: SweepFile,
    name: str | None,
    seed: int,
    trials: int | None,
    refusal: Refusal,
    load_search: SearcherInterface | None = None,
    *,
    as_listed: bool = False,
) -> Chosen:
    """The search of a sweep: for a load, by name, the file's own, or every combination.

    `as_listed` does not even let build parameters of a file of lists vary slowest.
    """
    if load_search is not None:
        return Chosen(ScriptedSearcher(load_search), "load", trials)
    if name in (None, ALL) and file.search is not None:
        own = file.search()
        return Chosen(ScriptedSearcher(own), f"{file.name}:search", trials, own)
    if name in (None, ALL):
        product = CartesianProduct(
            {key: list(values) for key, values in file.parameters.items()},
            list(file.no_rebuild) if file.no_rebuild is not None and not as_listed else None,
        )
        count = math.prod(map(len, file.parameters.values()))
        planned = count if trials is None else min(count, trials)
        return Chosen(ScriptedSearcher(product), ALL, planned, at_most=False)
    if not file.parameters:
        raise UsageError(f"{file.path} lists no values of parameters for searcher {name} to choose")
    name = check_name(str(name))
    return Chosen(_NamedSearch(file.parameters, name, seed, trials, refusal), name, trials)


class _NamedSearch:
    """A searcher of kernels on the values of a file, which may be None or of several kinds."""

    def __init__(
        self,
        parameters: Mapping[str, Sequence[Scalar]],
        name: str,
        seed: int,
        trials: int | None,
        refusal: Refusal,
    ) -> None:
        self._mixed = {key for key, values in parameters.items() if not _uniform(values)}
        given = [
            Parameter(key, tuple(dict.fromkeys(self._code(key, v) for v in values)))
            for key, values in parameters.items()
        ]

        def allowed(**settings: Any) -> bool:
            return not refusal(self._decoded(Config(settings)))

        # The rule reads all parameters; a constraint says which ones by its signature.
        kinds = inspect.Parameter.KEYWORD_ONLY
        allowed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(key, kinds) for key in parameters]
        )
        few = math.prod(map(len, parameters.values())) <= _LARGEST_FILTERED
        space = ParameterSpace(given, [allowed] if few else [])
        self._searcher = create(name, SearchContext(space, seed, trials))

    def ask(self, n: int) -> list[Config]:
        return [self._decoded(config) for config in self._searcher.ask(n)]

    def tell(self, trial: Trial) -> None:
        config = {key: self._code(key, value) for key, value in trial.config.items()}
        self._searcher.tell(replace(trial, config=Config(config)))

    @property
    def done(self) -> bool:
        return self._searcher.done

    def _code(self, key: str, value: Scalar) -> Any:
        return json.dumps(value) if key in self._mixed else value

    def _decoded(self, config: Config) -> Config:
        items = {k: json.loads(str(v)) if k in self._mixed else v for k, v in config.items()}
        return Config.of(items)


def _uniform(values: Sequence[Scalar]) -> bool:
    return len({type(value) for value in values}) == 1 and None not in values
