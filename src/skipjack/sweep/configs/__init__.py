"""Base configs, which points are laid over, and the names in them."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.sweep.configs.base_config import (
        BaseConfig,
        check_names,
        is_allowed,
        overlay,
        read_base_config,
        read_config_tree,
    )
    from skipjack.sweep.configs.names import (
        benchmark_name,
        detect_system_id,
        gpu_names,
        scenario_name,
    )

__all__ = [
    "BaseConfig",
    "benchmark_name",
    "check_names",
    "detect_system_id",
    "gpu_names",
    "is_allowed",
    "overlay",
    "read_base_config",
    "read_config_tree",
    "scenario_name",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "base_config": (
            "BaseConfig check_names is_allowed overlay read_base_config read_config_tree"
        ),
        "names": "benchmark_name detect_system_id gpu_names scenario_name",
    },
)
