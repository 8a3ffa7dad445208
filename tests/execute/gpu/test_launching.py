"""Arguments are the bytes that a kernel reads; scratch memory is lent; nothing is compiled."""

import struct
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from processes import PATIENCE_S
from skipjack.core import Tensor
from skipjack.errors import SkipjackError
from skipjack.execute.gpu import LoadedKernel, checked_artifact, packed
from skipjack.execute.gpu.arrays import DeviceArrays, rotating_sets, set_count
from skipjack.gpu import (
    ABI,
    Argument,
    Descriptor,
    GpuError,
    KernelAbi,
    Number,
    Pointer,
    launch,
    pack,
)
from skipjack.operations import parse, tensors
from skipjack.testing.fake_gpu import DEVICE, FakeGpu, fake_artifact


def bytes_of(abi: KernelAbi, *values: Any) -> list[bytes]:
    def tensor_map(address: int, shape: Any, strides: Any, meta: dict[str, Any]) -> bytes:
        return f"map of {address} {tuple(shape)} {tuple(strides)} {meta['swizzle']}".encode()

    return list(packed(launch("k", (1,), values), abi, lambda place: 4096, tensor_map))


def test_numbers_take_the_width_that_the_kernel_reads() -> None:
    types = ("i32", "i64", "fp32", "fp64", "i1")
    abi = KernelAbi("k", "k", tuple(map(Argument, types)), 32)
    given = (7, 7, 0.5, 0.25, 1)
    expected = [struct.pack(f"<{form}", v) for form, v in zip("iqfdb", given, strict=True)]
    assert bytes_of(abi, *given) == expected


@pytest.mark.parametrize(
    ("value", "type_"), [(0.5, "i32"), (1, "fp32"), ("x", "i64"), (Number("i64", 2**31), "i32")]
)
def test_a_value_of_another_type_is_refused(value: Any, type_: str) -> None:
    with pytest.raises(SkipjackError, match=f"argument 0 of kernel k is {type_}"):
        bytes_of(KernelAbi("k", "k", (Argument(type_),), 32), value)


def test_a_number_that_the_compiler_took_to_be_a_multiple_is_one() -> None:
    abi = KernelAbi("k", "k", (Argument("i32", 16),), 32)
    assert bytes_of(abi, 32) == [struct.pack("<i", 32)]
    with pytest.raises(SkipjackError, match="multiples of 16; 33 is not one"):
        bytes_of(abi, 33)


def test_a_descriptor_is_a_map_then_shape_and_strides() -> None:
    argument = Argument("tensordesc<fp16[128, 64]>")
    abi = KernelAbi("k", "k", (argument,), 32, descriptors=({"swizzle": 3},))
    given = Descriptor(Pointer("x"), (300, 200), (200, 1))
    assert bytes_of(abi, given) == [
        b"map of 4096 (300, 200) (200, 1) 3",
        *(struct.pack("<i", size) for size in (300, 200)),
        *(struct.pack("<q", stride) for stride in (200, 1)),
    ]


def test_a_descriptor_without_a_copy_engine_is_taken_apart() -> None:
    abi = KernelAbi("k", "k", (Argument("tensordesc<fp16[8]>"),), 32)
    found = bytes_of(abi, Descriptor(Pointer("x"), (300,), (1,)))
    longs = [struct.pack("<q", number) for number in (4096, 300, 1)]
    assert found == [*longs, b"\0", struct.pack("<i", 300), struct.pack("<q", 1)]


@dataclass(frozen=True)
class Addresses:
    addresses: dict[str, int]


class Watched(FakeGpu):
    """Remembers launches and allocations."""

    def __init__(self) -> None:
        super().__init__()
        self.launched: list[list[bytes]] = []
        self.allocated: list[int] = []

    def allocate(self, size: int) -> int:
        self.allocated.append(size)
        return super().allocate(size)

    def launch(self, function: int, shape: Any, values: Any, stream: int | None = None) -> None:
        self.launched.append(list(values))


def test_blocks_get_scratch_memory_as_hidden_pointers() -> None:
    gpu = Watched()
    artifact = fake_artifact(scratch_bytes=100, cluster=(2, 1, 1))
    kernel = LoadedKernel(gpu, artifact, [launch("add", (3, 5), ["x", "y", "out", 16])])
    places = Addresses({"x": 256, "y": 512, "out": 768})
    for _ in range(2):
        kernel.bind(places)()
    assert gpu.allocated == [100 * 15 * 2]
    *_, scratch, profile = gpu.launched[0]
    assert struct.unpack("<Q", scratch)[0] % 256 == 0
    assert struct.unpack("<Q", scratch)[0] > 0
    assert struct.unpack("<Q", profile)[0] == 0
    assert len(gpu.launched[0]) == 6
    before = gpu.memory()[0]
    kernel.free()
    assert gpu.memory()[0] > before


def test_an_artifact_for_another_gpu_is_refused() -> None:
    import hashlib

    data = pack(fake_artifact())
    digest = hashlib.sha256(data).hexdigest()
    assert checked_artifact(data, digest, ABI, DEVICE.arch).target == DEVICE.arch
    with pytest.raises(SkipjackError, match="is for fake_1, but this GPU is sm_90"):
        checked_artifact(data, digest, ABI, "sm_90")


def test_sets_exceed_the_cache_and_leave_memory_alone() -> None:
    mib = 1 << 20
    assert set_count(10 * mib, 10 * mib, 50 * mib, 1 << 40) == 15
    assert set_count(mib, mib, 50 * mib, 1 << 40) == 24
    assert set_count(400 * mib, 400 * mib, 50 * mib, 1 << 40) == 1
    assert set_count(10 * mib, 10 * mib, 50 * mib, 100 * mib) == 2
    assert set_count(10 * mib, 10 * mib, 50 * mib, 0) == 1


def test_where_memory_holds_no_other_set_the_checked_one_is_timed() -> None:
    problem = parse("add:1000")

    class Full(FakeGpu):
        full = False

        def allocate(self, size: int) -> int:
            if self.full:
                raise GpuError("no", out_of_memory=True)
            return super().allocate(size)

    gpu = Full()
    arrays = DeviceArrays(gpu, problem, tensors(problem))
    gpu.full = True
    assert rotating_sets(gpu, arrays) == [arrays]


def test_tensors_of_different_types_lie_where_they_should() -> None:
    gpu, problem = FakeGpu(), parse("add:1000")
    arrays = DeviceArrays(
        gpu, problem, [Tensor("x", (7,), "f16"), Tensor("y", (7,), "f64")], offset=16
    )
    assert arrays.sizes == {"x": 14, "y": 56}
    assert {address % 256 for address in arrays.addresses.values()} == {16}
    assert arrays.strayed() == ""
    gpu.fill(arrays.addresses["x"] + 14, 0, 1)
    assert arrays.strayed() == "x"


def test_the_run_worker_never_loads_triton_or_llvm() -> None:
    code = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in ('triton', 'llvmlite'):\n"
        "            raise AssertionError(name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        "import hashlib, io\n"
        "from skipjack import plugins\n"
        "plugins.load(('skipjack.testing.fake_gpu',))\n"
        "from skipjack.execute import wire\n"
        "from skipjack.execute.gpu import serve\n"
        "from skipjack.gpu import ABI, pack\n"
        "from skipjack.gpu import launch, to_slots\n"
        "from skipjack.testing.fake_gpu import fake_artifact\n"
        "data = pack(fake_artifact())\n"
        "slots = to_slots([launch('add', (8,), ['x', 'y', 'out', 1000])])\n"
        "one = {'kernel': 1}\n"
        "load = {'verb': 'load', 'digest': hashlib.sha256(data).hexdigest(), 'abi': ABI, **one}\n"
        "asked = [({'verb': 'prepare', 'problem': 'add:1000', 'cold': True, 'eager': False}, []),\n"
        "  ({**load, 'slots': slots}, [data]),\n"
        "  ({'verb': 'verify', 'elsewhere': False, 'slack': 1.0, **one}, []),\n"
        "  ({'verb': 'time', 'kernels': [1], 'blocks': 1, 'samples': 1, 'sample_ns': 1}, [])]\n"
        "answers = io.BytesIO()\n"
        "serve(io.BytesIO(b''.join(wire.encode(*a) for a in asked)), answers, None, 'fake:0')\n"
        "answers.seek(0)\n"
        "*_, verified, timed = iter(lambda: wire.receive(answers.read), None)\n"
        "assert verified.body['right'] and timed.body['blocks'], (verified, timed)\n"
        "assert not {'triton', 'llvmlite', 'torch'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
