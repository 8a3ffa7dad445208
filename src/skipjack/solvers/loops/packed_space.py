"""The space of a packed matrix product, or of several that give the same result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from skipjack.core.config import Config
from skipjack.core.constraints import ConstraintLike
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.native.ir import ITEM_BYTES
from skipjack.solvers.loops.packed_estimate import Sizes, clipped, estimate
from skipjack.solvers.loops.packed_product import Product
from skipjack.solvers.loops.packed_stage import product_parameters

_RANKED = 256
_REPEATED = 0.004
"""How much better a config must be for every one before it with the same code and split."""
_NOT_CODE = ("unroll",)
"""Build-time parameters that make little of a difference."""


class PackedSpace(ParameterSpace):
    """Tries different tiles before many blocks of one tile."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        estimate: Callable[[Config], float],
        constraints: Sequence[ConstraintLike] = (),
        clip: Callable[[Config], Config] = lambda config: config,
        kinds: Sequence[str] = (),
    ) -> None:
        """`clip` gives a config that runs the same, with blocks cut to what there is.

        `kinds` are parameters set at run time that are tried early, like different tiles.
        """
        super().__init__(parameters, constraints, order=estimate, default_by_order=True)
        self.estimate, self._clip, self._kinds = estimate, clip, kinds

    def promising(self, count: int) -> Sequence[Config]:
        """By the estimate, but what repeats a tile has to be a little better each time.

        What runs the same as a config before it comes last.
        """
        tried: Counter[Config] = Counter()
        known: set[Config] = set()
        ranked: list[tuple[bool, float, int, Config]] = []
        for config in super().promising(_RANKED):
            names = [name for name in self.build_part(config) if name not in _NOT_CODE]
            kind = Config({name: config[name] for name in (*names, *self._kinds)})
            same = self._clip(config)
            cost = self.estimate(config) + _REPEATED * tried[kind]
            ranked.append((same in known, cost, len(ranked), config))
            tried[kind] += same not in known
            known.add(same)
        return [config for *_, config in sorted(ranked, key=lambda entry: entry[:3])[:count]]


def product_space(product: Product, dtype: str, device: Device) -> PackedSpace:
    """Of one product whose B is packed."""
    sizes = _sizes(product, dtype, device)
    return PackedSpace(
        product_parameters(product, device),
        lambda config: estimate(config, sizes),
        clip=lambda config: clipped(config, sizes),
        kinds=("split",),
    )


def choice_space(
    name: str, products: Mapping[str, Product], dtype: str, device: Device
) -> PackedSpace:
    """Of one or more products by the value of a parameter `name`; B may be read in place.

    A value that only some of the products can have is kept to them by a constraint.
    """
    of_each = {
        choice: {p.name: p for p in _in_place_too(product, device)}
        for choice, product in products.items()
    }
    parameters: list[Parameter] = []
    constraints: list[str] = []
    if len(products) > 1:
        parameters.append(Parameter(name, tuple(products)))
    for parameter in next(iter(of_each.values())):
        versions = {choice: own[parameter] for choice, own in of_each.items()}
        values = tuple(dict.fromkeys(v for version in versions.values() for v in version.values))
        parameters.append(Parameter(parameter, values, stage=next(iter(versions.values())).stage))
        for choice, version in versions.items():
            if len(version.values) < len(values):
                allowed = " or ".join(f"{parameter} == {v!r}" for v in version.values)
                constraints.append(f"{name} != {choice!r} or {allowed}")
    sizes = {choice: _sizes(product, dtype, device) for choice, product in products.items()}
    only = next(iter(products))

    def of(config: Config) -> Sizes:
        return sizes[str(config.get(name, only))]

    return PackedSpace(
        parameters,
        lambda config: estimate(config, of(config)),
        constraints,
        lambda config: clipped(config, of(config)),
        ("split",),
    )


def _in_place_too(product: Product, device: Device) -> list[Parameter]:
    parameters = [p for p in product_parameters(product, device) if p.name not in _NOT_CODE]
    return [*parameters[:2], Parameter("pack_b", product.packs_b), *parameters[2:]]


def _sizes(product: Product, dtype: str, device: Device) -> Sizes:
    item = ITEM_BYTES[dtype]
    return Sizes(product, device.vector_bytes // item, item, device)
