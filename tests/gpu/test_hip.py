"""AMD's GPUs by the kernel's list, and launches by HIP's names."""

import struct
from pathlib import Path
from typing import Any

import pytest
from stand_in_library import StandIn, put

from skipjack.gpu import GpuError, HipDriver, LaunchShape, read_nodes
from skipjack.gpu.hip import arch_of


@pytest.mark.parametrize(
    ("version", "arch"),
    [
        *[(90008, "gfx908"), (90010, "gfx90a"), (90402, "gfx942"), (90500, "gfx950")],
        *[(110000, "gfx1100"), (120001, "gfx1201")],
    ],
)
def test_architectures_are_spelled_from_versions(version: int, arch: str) -> None:
    assert arch_of(version) == arch


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    gpu = {"simd_count": 1216, "simd_per_cu": 4, "gfx_target_version": 90402, "lds_size_in_kb": 64}
    place = {"domain": 0, "location_id": 0xC1 << 8}
    for number, values in enumerate([{"cpu_cores_count": 96, "simd_count": 0}, {**gpu, **place}]):
        folder = tmp_path / str(number)
        cache = folder / "caches" / "0"
        cache.mkdir(parents=True)
        text = "\n".join(f"{name} {value}" for name, value in values.items())
        (folder / "properties").write_text(text)
        (cache / "properties").write_text("level 2\nsize 4096\n")
    return tmp_path


def driver(nodes: Path, bus: bytes = b"0000:C1:00.0", **actions: Any) -> tuple[HipDriver, StandIn]:
    handle = StandIn(
        **{
            "hipDriverGetVersion": put(60443482),
            "hipGetDeviceCount": put(1),
            "hipDeviceGetName": put(b"AMD Test"),
            "hipDeviceGetPCIBusId": put(bus),
            "hipDeviceTotalMem": put(192 << 30),
            **actions,
        }
    )
    return HipDriver(handle, nodes), handle


def test_cpus_are_left_out_of_the_list(nodes: Path, tmp_path: Path) -> None:
    (node,) = read_nodes(nodes)
    assert (node.arch, node.units, node.bus) == ("gfx942", 304, "0000:c1:00.0")
    assert (node.shared_bytes, node.l2_bytes) == (64 << 10, 4 << 20)
    assert read_nodes(tmp_path / "none") == []


def test_a_gpu_is_found_in_the_list_by_its_bus(nodes: Path) -> None:
    made, _ = driver(nodes)
    (device,) = made.devices()
    assert (device.kind, device.name, device.model) == ("hip", "gfx942/304", "AMD Test")
    assert made.version() == (6, 4)
    with pytest.raises(GpuError, match=r"at 0000:c2:00\.0 is not listed in"):
        driver(nodes, b"0000:C2:00.0")[0].devices()


def test_a_launch_names_its_grid_and_block(nodes: Path) -> None:
    made, handle = driver(nodes)
    gpu = made.open(0)
    gpu.launch(9, LaunchShape((2, 3, 4), 256, 100), [struct.pack("<Q", 1)])
    (words,) = handle.named("hipModuleLaunchKernel")
    assert words[:9] == (9, 2, 3, 4, 256, 1, 1, 100, gpu.stream)
    gpu.launch(9, LaunchShape((2, 3, 4), 256, cooperative=True), [])
    assert len(handle.named("hipModuleLaunchCooperativeKernel")) == 1


def test_the_device_that_was_current_is_so_again(nodes: Path) -> None:
    made, handle = driver(nodes, hipGetDevice=put(3))
    gpu = made.open(0)
    handle.calls.clear()
    gpu.fill(1, 0, 8, 0x77)
    assert [name for name, _ in handle.calls] == [
        *("hipGetDevice", "hipSetDevice", "hipMemsetD8Async", "hipSetDevice")
    ]
    assert handle.named("hipSetDevice") == [(0,), (3,)]
    assert handle.named("hipMemsetD8Async") == [(1, 0, 8, 0x77)]


def test_it_has_no_descriptors(nodes: Path) -> None:
    gpu = driver(nodes)[0].open(0)
    with pytest.raises(GpuError, match="gfx942 has no copy engine"):
        gpu.tensor_map(0, (8,), (1,), {})
