"""Container images: building them, distributing them to machines, and running workers in them."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.images.commands import ImageRecipe, Mount
    from skipjack.fleet.images.container_engine import (
        ContainerEngine,
        complaint,
        find_engine,
        ready_engine,
    )
    from skipjack.fleet.images.gpus import GpuRef, gpu_here
    from skipjack.fleet.images.image_build import build
    from skipjack.fleet.images.names import ImageIdentity, check_image, note_image
    from skipjack.fleet.images.workers import USER_DIR, ContainedWorkers, place_for_containers

__all__ = [
    "USER_DIR",
    "ContainedWorkers",
    "ContainerEngine",
    "GpuRef",
    "ImageIdentity",
    "ImageRecipe",
    "Mount",
    "build",
    "check_image",
    "commands",
    "complaint",
    "find_engine",
    "gpu_here",
    "names",
    "note_image",
    "place_for_containers",
    "ready_engine",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "commands": "ImageRecipe Mount",
        "container_engine": "ContainerEngine complaint find_engine ready_engine",
        "gpus": "GpuRef gpu_here",
        "image_build": "build",
        "names": "ImageIdentity check_image note_image",
        "workers": "ContainedWorkers USER_DIR place_for_containers",
    },
)
