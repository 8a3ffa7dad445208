"""GPUs without a framework: drivers, artifacts, launch plans, and the only caller of Triton's
compiler.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.gpu.architectures import (
        KNOWN,
        GpuLimits,
        describe_gpu,
        is_gpu_arch,
        named_gpu,
        refusal_of_arch,
    )
    from skipjack.gpu.artifact import (
        ABI,
        Argument,
        GpuArtifact,
        KernelAbi,
        check_fit,
        fits,
        pack,
        unpack,
    )
    from skipjack.gpu.cuda import LIBRARY, CudaGpu, TensorMap, launch_config
    from skipjack.gpu.discovery import (
        FoundGpu,
        driver_release,
        find_gpu,
        find_gpus,
        gpu_name,
        local_gpus,
        missing_driver_reason,
        open_driver,
        open_gpu,
        register_driver,
    )
    from skipjack.gpu.driver import Gpu, GpuError, Graph, LaunchShape
    from skipjack.gpu.hip import HipDriver, read_nodes
    from skipjack.gpu.plan import (
        Descriptor,
        Fill,
        Launch,
        Number,
        Pointer,
        Scratch,
        Step,
        Value,
        blocks,
        from_slots,
        launch,
        scratch_sizes,
        to_slots,
    )
    from skipjack.gpu.triton_compiler import (
        CollectedCalls,
        GpuBuildError,
        can_collect,
        collected_calls,
        compile_call,
        compile_source,
    )

__all__ = [
    "ABI",
    "KNOWN",
    "LIBRARY",
    "Argument",
    "CollectedCalls",
    "CudaGpu",
    "Descriptor",
    "Fill",
    "FoundGpu",
    "Gpu",
    "GpuArtifact",
    "GpuBuildError",
    "GpuError",
    "GpuLimits",
    "Graph",
    "HipDriver",
    "KernelAbi",
    "Launch",
    "LaunchShape",
    "Number",
    "Pointer",
    "Scratch",
    "Step",
    "TensorMap",
    "Value",
    "blocks",
    "can_collect",
    "check_fit",
    "collected_calls",
    "compile_call",
    "compile_source",
    "describe_gpu",
    "driver_release",
    "find_gpu",
    "find_gpus",
    "fits",
    "from_slots",
    "gpu_name",
    "is_gpu_arch",
    "launch",
    "launch_config",
    "local_gpus",
    "missing_driver_reason",
    "named_gpu",
    "open_driver",
    "open_gpu",
    "pack",
    "read_nodes",
    "refusal_of_arch",
    "register_driver",
    "scratch_sizes",
    "to_slots",
    "unpack",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "architectures": "GpuLimits KNOWN describe_gpu is_gpu_arch named_gpu refusal_of_arch",
        "artifact": "ABI Argument GpuArtifact KernelAbi check_fit fits pack unpack",
        "cuda": "CudaGpu LIBRARY TensorMap launch_config",
        "discovery": (
            "FoundGpu driver_release find_gpu find_gpus gpu_name local_gpus "
            "missing_driver_reason open_driver open_gpu register_driver"
        ),
        "driver": "Gpu GpuError Graph LaunchShape",
        "hip": "HipDriver read_nodes",
        "plan": (
            "Descriptor Fill Launch Number Pointer Scratch Step Value blocks from_slots launch "
            "scratch_sizes to_slots"
        ),
        "triton_compiler": (
            "CollectedCalls GpuBuildError can_collect collected_calls compile_call compile_source"
        ),
    },
)
