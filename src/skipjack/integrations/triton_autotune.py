"""``@skipjack.autotune``: stands where ``@triton.autotune`` stood, and its arguments work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skipjack.core.config import Value
from skipjack.core.constraints import ConstraintLike
from skipjack.core.study import Budget
from skipjack.errors import UsageError


@dataclass(frozen=True, slots=True)
class Search:
    """What may vary where no configs are listed, and how long it is looked for."""

    space: Mapping[str, Sequence[Value]]
    constraints: tuple[ConstraintLike, ...] = ()
    budget: Budget = field(default_factory=Budget)
    searcher: str = "auto"
    seed: int = 0


def autotune(
    configs: Sequence[Any] | None = None,
    key: Sequence[str] = (),
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., object] | None = None,
    post_hook: Callable[..., object] | None = None,
    warmup: int | None = None,
    rep: int | None = None,
    use_cuda_graph: bool | None = None,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool | None = None,
    *,
    space: Mapping[str, Sequence[Value]] | None = None,
    constraints: Sequence[ConstraintLike] = (),
    budget: int | None = None,
    seconds: float | None = None,
    searcher: str = "auto",
    seed: int = 0,
) -> Callable[[Any], Any]:
    """Decorate a ``triton.jit`` function: the first call with new `key` values tunes it.

    `configs` are ``triton.Config`` objects, all of which are tried; or `space` names settings with
    their values (constants of the kernel, ``num_warps``, ``num_stages``, ``num_ctas``,
    ``maxnreg``), with `constraints` such as ``"BLOCK_M * BLOCK_N <= 32768"`` that may also read the
    call's whole-number arguments. A space is searched for `seconds` or by `budget` trials.

    Configs are compiled in parallel processes, then timed in turn; the winner is confirmed beside
    the first config and kept in the user directory's bank, all trials in its ledger, unless
    `cache_results` is False. `warmup` and `rep` mean
    nothing here and are taken for compatibility; `use_cuda_graph` False forbids graphs.
    """
    if (configs is None) == (space is None):
        raise UsageError("autotune needs either configs=[...] or space={...}")
    if space is None and (constraints or budget is not None):
        raise UsageError("constraints and budget are for a space; configs are all tried")
    search = None
    if space is not None:
        search = Search(space, tuple(constraints), Budget(budget, seconds), searcher, seed)
    graphs, keep = use_cuda_graph is not False, cache_results is not False

    def decorate(function: Any) -> Any:
        from skipjack.integrations.triton_tuner import Autotuner, Options

        return Autotuner(
            function,
            function.arg_names,
            list(configs or ()),
            list(key),
            reset_to_zero,
            restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            prune_configs_by=prune_configs_by,
            do_bench=do_bench,
            options=Options(search, seconds, graphs, keep),
        )

    return decorate
