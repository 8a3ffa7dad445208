"""Benchmarks and scenarios by any of the names that people write."""

from __future__ import annotations

import re
from collections.abc import Callable

from skipjack.core.naming import did_you_mean
from skipjack.errors import UsageError

_BENCHMARKS: dict[str, tuple[str, ...]] = {
    "3d-unet": ("unet", "3dunet", "3d-unet-99", "3d-unet-99.9", "unet3d"),
    "bert": ("bert-99", "bert-99.9", "bert-large"),
    "dlrm": ("dlrm-99", "dlrm-99.9"),
    "dlrm-v2": ("dlrm-v2-99", "dlrm-v2-99.9", "dlrmv2"),
    "gptj": ("gpt-j", "gptj-99", "gptj-99.9", "gptj6b"),
    "llama2-70b": ("llama2", "llama2-70b-99", "llama2-70b-99.9"),
    "llama3.1-405b": ("llama3.1", "llama3-405b"),
    "mixtral-8x7b": ("mixtral", "moe"),
    "mobilenet": ("mobile-net",),
    "resnet50": ("resnet", "resnet-50", "rn50", "resnet50-v1.5"),
    "retinanet": ("retina-net", "retinanet-800x800"),
    "rnnt": ("rnn-t",),
    "ssd-mobilenet": ("ssd-small", "ssdmobilenet"),
    "ssd-resnet34": ("ssd-large", "ssdresnet34", "ssd-resnet-34"),
    "stable-diffusion-xl": ("sdxl", "stable-diffusion"),
}
_SCENARIOS: dict[str, tuple[str, ...]] = {
    "Offline": (),
    "Server": (),
    "SingleStream": ("single", "ss"),
    "MultiStream": ("multi", "ms"),
    "Interactive": (),
}


def benchmark_name(text: str) -> str:
    """The name of the benchmark that is meant, as directories have it; others as they are."""
    return _KNOWN_BENCHMARKS.get(_folded(text), text)


def scenario_name(text: str) -> str:
    """The scenario that is meant, as LoadGen spells it: ``Offline``, ``SingleStream``."""
    try:
        return _KNOWN_SCENARIOS[_folded(text)]
    except KeyError:
        raise UsageError(
            f"there is no scenario {text!r}; there are {', '.join(_SCENARIOS)}"
            f"{did_you_mean(text, _SCENARIOS)}"
        ) from None


def same_name(directory: str, wanted: str, canonical: Callable[[str], str]) -> bool:
    """Whether a directory of a tree is the one that is wanted."""
    try:
        names = canonical(directory), canonical(wanted)
    except UsageError:
        names = directory, wanted  # a tree may hold other things, too
    return _folded(names[0]) == _folded(names[1])


def _folded(text: str) -> str:
    """Without case and joints: ``RNN-T`` is ``rnnt``, ``Single-Stream`` is ``singlestream``."""
    return re.sub(r"[\s_-]+", "", text).lower()


def _by_alias(table: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {_folded(alias): name for name, all_ in table.items() for alias in (name, *all_)}


_KNOWN_BENCHMARKS = _by_alias(_BENCHMARKS)
_KNOWN_SCENARIOS = _by_alias(_SCENARIOS)
