"""Which GPUs are here."""

import ctypes
from dataclasses import replace
from typing import Any

import pytest
from stand_in_library import Drawer

from skipjack.core import Device
from skipjack.gpu import GpuError, discovery, find_gpu, find_gpus, gpu_name, open_driver, open_gpu
from skipjack.gpu.discovery import only_drivers

SMALL = Device("cuda", "sm_86", 84, serial="s")
LARGE = Device("cuda", "sm_90", 132, serial="a")


def test_gpus_are_looked_up_once() -> None:
    drawer = Drawer(SMALL, LARGE)
    with only_drivers(drawer):
        assert [device for _, _, device in find_gpus()] == [SMALL, LARGE]
        find_gpus()
        assert drawer.asked == 1
        assert open_driver("cuda") is drawer
    assert find_gpus() == []


@pytest.mark.parametrize("which", [1, "1", "cuda:1", "sm_90/132", "a"])
def test_a_gpu_is_found_by_every_name_it_has(which: str | int) -> None:
    with only_drivers(Drawer(SMALL, LARGE)):
        assert find_gpu(which)[1:] == (1, LARGE)
        with pytest.raises(GpuError, match="opened 1"):
            open_gpu(which)


def test_a_device_is_named_by_which_one_it_is() -> None:
    twin = replace(LARGE, serial="b")
    with only_drivers(Drawer(SMALL, LARGE, twin)):
        assert gpu_name(twin) == "cuda:2"
        assert gpu_name(replace(LARGE, serial="")) == "cuda:1"
        with pytest.raises(GpuError, match="there is no GPU sm_80/108 here, only cuda:0"):
            gpu_name(Device("cuda", "sm_80", 108))


def test_a_driver_that_fails_has_no_gpus() -> None:
    with only_drivers(Drawer(broken=True)):
        assert find_gpus() == []


def test_without_a_library_there_is_no_gpu_and_it_is_said_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    discovery._load_driver.cache_clear()
    monkeypatch.setitem(discovery._VENDORS, "cuda", (("libcuda.so.1",), lambda handle: handle))
    assert discovery.open_drivers() == []
    with pytest.raises(GpuError, match=r"no GPU cuda:0 here: libcuda\.so\.1 is not installed"):
        open_gpu("cuda:0")
    with pytest.raises(GpuError, match="no driver for vulkan here"):
        open_driver("vulkan")
    discovery._load_driver.cache_clear()


def test_a_library_without_a_gpu_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: Any) -> Any:
        raise GpuError("CUDA refused cuInit: no device (CUDA_ERROR_NO_DEVICE)")

    monkeypatch.setattr(ctypes, "CDLL", lambda name: name)
    discovery._load_driver.cache_clear()
    monkeypatch.setitem(discovery._VENDORS, "cuda", (("libcuda.so.1",), refuse))
    with pytest.raises(GpuError, match="no GPU 0 here: CUDA refused cuInit: no device"):
        find_gpu(0)
    discovery._load_driver.cache_clear()
