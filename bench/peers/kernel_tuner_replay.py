"""Strategies of Kernel Tuner on a recorded space, in its own simulation mode.

This script runs inside an environment of its own and shares nothing with Skipjack. Its arguments
are a cache file of Kernel Tuner and a request in JSON: ``strategy``, ``options``, ``budget``,
``seeds``. It prints a line of JSON for each seed: the places in the cache file of the configs that
were evaluated, each once, in their order; seconds; and an error if the strategy raised one. Without
arguments it prints its version and the names of all strategies.

A search that evaluates nothing new for `STUCK` seconds of a core has ended: some repeat themselves
for ever. At the process's limit of CPU time, the line of the search that was running says so.

A recorded config that failed is legal here, as for our searchers: it has to be tried to know that
it fails. ``tune_cache`` would leave out all failed configs, which no user can do before tuning.

``brute_force`` takes no budget, so it is cut off. The released pyATF lacks an argument that Kernel
Tuner 1.5 gives it; its techniques get the same parameters and legal configs without that.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import random
import signal
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from constraint import FunctionConstraint
from kernel_tuner import interface, tune_kernel, util
from kernel_tuner.runners import simulation
from kernel_tuner.searchspace import Searchspace

STUCK = 1.5
_SLOW = {"skopt": 30.0, "bayes_opt": 30.0}
"""Strategies that fit a model for each evaluation need more."""
patience = STUCK
EVALUATED: dict[str, None] = {}
"""The keys of the configs of the running search, in the order of their first evaluations."""


class Stuck(BaseException):
    """The search evaluates nothing new; no strategy catches this."""


def stop(*_: object) -> None:
    """Called by a signal."""
    raise Stuck


class _Ordered(dict[str, None]):
    """Has the methods of a set that the runner uses, and keeps the order."""

    def add(self, key: str) -> None:
        self[key] = EVALUATED[key] = None
        signal.setitimer(signal.ITIMER_PROF, patience)


class _Runner(simulation.SimulationRunner):
    """Tells which configs were evaluated, also of strategies that do not return all."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.visited_results = _Ordered()


def parameters_for_pyatf(cache: dict[str, Any]) -> list[Any]:
    """Each parameter with a constraint on it and on those before it: such a config is recorded."""
    from pyatf import TP, Set

    names = cache["tune_params_keys"]
    made = []
    for count, name in enumerate(names, 1):
        first = names[:count]
        begun = {tuple(row[one] for one in first) for row in cache["cache"].values()}

        def is_begun(*, first: Any = first, begun: Any = begun, **values: Any) -> bool:
            return tuple(values[one] for one in first) in begun

        arguments = [inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY) for one in first]
        is_begun.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
        made.append(TP(name, Set(*cache["tune_params"][name]), is_begun))
    return made


def read_once(cache: dict[str, Any]) -> None:
    """Read the file and list the legal configs once for all seeds: they are the same."""
    keys = cache["tune_params_keys"]
    cache["recorded"] = {tuple(row[key] for key in keys) for row in cache["cache"].values()}
    util.read_cache = lambda *_, **__: cache
    build = Searchspace._Searchspace__build_searchspace
    built: list[Any] = []

    def build_once(*arguments: Any) -> Any:
        if not built:
            built.extend(build(*arguments))
        listed, places, size = built
        return list(listed), dict(places), size

    Searchspace._Searchspace__build_searchspace = build_once


def search(path: str, cache: dict[str, Any], request: dict[str, Any], seed: int) -> str:
    """Run a strategy once; what it raised, if anything."""
    global patience
    EVALUATED.clear()
    patience = _SLOW.get(request["strategy"], STUCK)
    random.seed(seed)
    np.random.seed(seed)
    recorded = cache["recorded"]
    options = dict(request["options"])
    if request["strategy"] != "brute_force":
        options["max_fevals"] = request["budget"]

    def was_recorded(*values: Any) -> bool:
        return values in recorded

    signal.setitimer(signal.ITIMER_PROF, 30 * STUCK)
    try:
        tune_kernel(
            **util.infer_args_from_cache(cache),
            restrictions=[FunctionConstraint(was_recorded)],
            cache=path,
            simulation_mode=True,
            strategy=request["strategy"],
            strategy_options=options,
            seed=seed,
            quiet=True,
        )
    except Stuck:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def main() -> None:
    """Run the strategy with each seed."""
    if len(sys.argv) == 1:
        print(json.dumps([version("kernel_tuner"), sorted(interface.strategy_map)]))
        return
    path, request = sys.argv[1], json.loads(sys.argv[2])
    warnings.simplefilter("ignore")
    simulation.SimulationRunner = _Runner
    cache = util.read_cache(path, open_cache=False)
    places = {key: at for at, key in enumerate(cache["cache"])}
    read_once(cache)
    Searchspace.get_tune_params_pyatf = lambda *_: parameters_for_pyatf(cache)
    os.chdir(Path(path).parent)  # one strategy makes a folder
    signal.signal(signal.SIGPROF, stop)
    for seed in request["seeds"]:
        begun = time.perf_counter()

        def say(error: str, seed: int = seed, begun: float = begun) -> None:
            seconds = time.perf_counter() - begun
            asked = [places[key] for key in EVALUATED][: request["budget"]]
            record = {"seed": seed, "asked": asked, "seconds": seconds, "error": error}
            print(json.dumps(record), file=sys.__stdout__, flush=True)

        def give_up(*_: object, say: Any = say) -> None:
            say("timed out")
            os._exit(0)

        signal.signal(signal.SIGXCPU, give_up)
        with contextlib.redirect_stdout(io.StringIO()):
            error = search(path, cache, request, seed)
        say(error)


if __name__ == "__main__":
    main()
