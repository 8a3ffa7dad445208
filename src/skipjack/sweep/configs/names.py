"""Names in base configs: benchmarks and scenarios in any spelling, and the ID of this system."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from skipjack.core import did_you_mean
from skipjack.errors import UsageError
from skipjack.sweep.bench import program_output

# Benchmarks and scenarios by any of their common names.

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
    """The benchmark's name as used for directories; unknown names as they are."""
    return _KNOWN_BENCHMARKS.get(_folded(text), text)


def scenario_name(text: str) -> str:
    """The scenario as LoadGen spells it: ``Offline``, ``SingleStream``."""
    try:
        return _KNOWN_SCENARIOS[_folded(text)]
    except KeyError:
        raise UsageError(
            f"unknown scenario {text!r}; the scenarios are {', '.join(_SCENARIOS)}"
            f"{did_you_mean(text, _SCENARIOS)}"
        ) from None


def same_name(directory: str, wanted: str, canonical: Callable[[str], str]) -> bool:
    """Whether two names mean the same benchmark or scenario."""
    try:
        names = canonical(directory), canonical(wanted)
    except UsageError:
        names = directory, wanted  # a tree may contain other directories
    return _folded(names[0]) == _folded(names[1])


def _folded(text: str) -> str:
    """Without case, hyphens, underscores and spaces: ``Single-Stream`` is ``singlestream``."""
    return re.sub(r"[\s_-]+", "", text).lower()


def _by_alias(table: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {_folded(alias): name for name, all_ in table.items() for alias in (name, *all_)}


_KNOWN_BENCHMARKS = _by_alias(_BENCHMARKS)
_KNOWN_SCENARIOS = _by_alias(_SCENARIOS)


# The ID of this machine in base configs: ``A10x1``, ``A100-PCIex8``, or its CPU.

_QUERY = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
_WAIT_S = 30.0
"""A driver may take long to initialise many GPUs, and the ID is needed."""
_PREFIXES = ("NVIDIA", "Tesla", "Quadro", "GeForce", "AMD", "Instinct")


def detect_system_id() -> str:
    """The GPU model with the number of GPUs, otherwise the CPU model with its cores."""
    return gpu_system_id(gpu_names()) or _cpu_system_id()


def gpu_system_id(names: list[str]) -> str:
    """``["NVIDIA A10", "NVIDIA A10"]`` is ``A10x2``; empty without GPUs.

    Different models are joined, as in ``A10x1+T4x2``.
    """
    counts = Counter(map(_short_name, names))
    return "+".join(f"{name}x{count}" for name, count in counts.items())


def _short_name(name: str) -> str:
    words = [word for word in re.split(r"[\s_]+", name.strip()) if word not in _PREFIXES]
    return "-".join(words) or "GPU"


def gpu_names() -> list[str]:
    """The models of the GPUs that nvidia-smi lists."""
    return [line for line in (program_output(_QUERY, _WAIT_S) or "").splitlines() if line.strip()]


def _cpu_system_id() -> str:
    from skipjack.native import detect

    device = detect()
    model = re.sub(r"[^A-Za-z0-9.]+", "-", device.model or device.arch).strip("-")
    return f"{model}x{device.cores}"
