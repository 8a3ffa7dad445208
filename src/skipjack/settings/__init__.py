"""All settings, read in one place from arguments, environment variables and a file."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.settings.configuration import ARTIFACTS, CONFIG_FILE, Settings, load_settings
    from skipjack.settings.variables import (
        AUTOTUNE,
        BANKS,
        BUILD_WORKERS,
        CACHE_DIR,
        CACHE_LIMIT,
        CONTAINER_ENGINE,
        CORE,
        CPU_LEVEL,
        DB,
        DB_PASSWORD_FILE,
        ENABLE_LOGGING_CMD,
        ENABLE_TUNE_DUMP,
        FIND_ENFORCE,
        FIND_MODE,
        FLEET_KEY,
        FREE_DISK,
        LOCK_DIR,
        LOG_LEVEL,
        LOG_LEVELS,
        MACHINE,
        MAX_GFLOPS,
        MIOPEN_DRIVER,
        MIOPEN_TIMEOUT_S,
        ON_MISS,
        PLUGIN_FOLDERS,
        PLUGINS,
        PROGRAM,
        RAY_NODE,
        REGRET,
        REMOTE_PYTHON,
        RETRY_FAILED_BUILDS,
        SSH_CONFIG,
        SYSTEM_DIR,
        TORCH,
        TORCH_OPS,
        TORCH_STARTED,
        TUNE_DUMP_PATH,
        TUNE_RESULT,
        TUNE_RESULT_PATH,
        TUNING_BACKGROUND,
        TUNING_SEARCHERS,
        TUNING_SECONDS,
        TVM_KERNELS,
        TVM_PYTHON,
        USER_DIR,
        VARIABLES,
        WEB_TOKEN,
        Variable,
        expanded,
        machine_name,
    )

__all__ = [
    "ARTIFACTS",
    "AUTOTUNE",
    "BANKS",
    "BUILD_WORKERS",
    "CACHE_DIR",
    "CACHE_LIMIT",
    "CONFIG_FILE",
    "CONTAINER_ENGINE",
    "CORE",
    "CPU_LEVEL",
    "DB",
    "DB_PASSWORD_FILE",
    "ENABLE_LOGGING_CMD",
    "ENABLE_TUNE_DUMP",
    "FIND_ENFORCE",
    "FIND_MODE",
    "FLEET_KEY",
    "FREE_DISK",
    "LOCK_DIR",
    "LOG_LEVEL",
    "LOG_LEVELS",
    "MACHINE",
    "MAX_GFLOPS",
    "MIOPEN_DRIVER",
    "MIOPEN_TIMEOUT_S",
    "ON_MISS",
    "PLUGINS",
    "PLUGIN_FOLDERS",
    "PROGRAM",
    "RAY_NODE",
    "REGRET",
    "REMOTE_PYTHON",
    "RETRY_FAILED_BUILDS",
    "SSH_CONFIG",
    "SYSTEM_DIR",
    "TORCH",
    "TORCH_OPS",
    "TORCH_STARTED",
    "TUNE_DUMP_PATH",
    "TUNE_RESULT",
    "TUNE_RESULT_PATH",
    "TUNING_BACKGROUND",
    "TUNING_SEARCHERS",
    "TUNING_SECONDS",
    "TVM_KERNELS",
    "TVM_PYTHON",
    "USER_DIR",
    "VARIABLES",
    "WEB_TOKEN",
    "Settings",
    "Variable",
    "expanded",
    "load_settings",
    "machine_name",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "configuration": "ARTIFACTS CONFIG_FILE Settings load_settings",
        "variables": (
            "AUTOTUNE BANKS BUILD_WORKERS CACHE_DIR CACHE_LIMIT CONTAINER_ENGINE CORE CPU_LEVEL "
            "DB DB_PASSWORD_FILE ENABLE_LOGGING_CMD ENABLE_TUNE_DUMP FIND_ENFORCE FIND_MODE "
            "FLEET_KEY FREE_DISK LOCK_DIR LOG_LEVEL LOG_LEVELS MACHINE MAX_GFLOPS MIOPEN_DRIVER "
            "MIOPEN_TIMEOUT_S ON_MISS PLUGINS PLUGIN_FOLDERS PROGRAM RAY_NODE REGRET "
            "REMOTE_PYTHON RETRY_FAILED_BUILDS SSH_CONFIG SYSTEM_DIR TORCH TORCH_OPS "
            "TORCH_STARTED TUNE_DUMP_PATH TUNE_RESULT TUNE_RESULT_PATH TUNING_BACKGROUND "
            "TUNING_SEARCHERS TUNING_SECONDS TVM_KERNELS TVM_PYTHON USER_DIR VARIABLES Variable "
            "WEB_TOKEN expanded machine_name"
        ),
    },
)
