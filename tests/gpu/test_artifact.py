"""Artifacts travel as bytes; what is not of this version is refused by name."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import SkipjackError
from skipjack.gpu import ABI, Argument, GpuArtifact, KernelAbi, pack, unpack
from skipjack.gpu.artifact import MAGIC

counts = st.integers(0, 2**31 - 1)
texts = st.text(max_size=20)
arguments = st.builds(
    Argument,
    st.sampled_from(["*fp16", "i32", "tensordesc<fp16[128, 64]>"]),
    st.sampled_from([1, 16]),
)
descriptors = st.fixed_dictionaries(
    {"swizzle": st.integers(0, 3), "block_size": st.lists(st.integers(1, 256), max_size=3)}
)
kernels = st.builds(
    KernelAbi,
    texts,
    texts,
    st.lists(arguments, max_size=4).map(tuple),
    st.integers(32, 1024),
    shared_bytes=counts,
    cluster=st.tuples(*[st.integers(1, 4)] * 3),
    cooperative=st.booleans(),
    dependent=st.booleans(),
    scratch_bytes=counts,
    descriptors=st.lists(descriptors, max_size=2).map(tuple),
    registers=counts,
)


@st.composite
def artifacts(draw: Any) -> GpuArtifact:
    built = draw(st.lists(kernels, max_size=3))
    binaries = draw(st.lists(st.binary(max_size=50), min_size=len(built), max_size=len(built)))
    driver = draw(st.tuples(st.integers(0, 20), st.integers(0, 20)))
    notes = draw(st.dictionaries(texts, texts, max_size=2))
    return GpuArtifact("sm_90", tuple(built), tuple(binaries), "triton 3", driver, notes)


@given(artifacts())
def test_an_artifact_comes_back_as_it_was(artifact: GpuArtifact) -> None:
    assert unpack(pack(artifact)) == artifact
    assert pack(unpack(pack(artifact))) == pack(artifact)


@given(artifacts(), st.data())
def test_a_part_of_one_is_damaged(artifact: GpuArtifact, data: st.DataObject) -> None:
    whole = pack(artifact)
    cut = data.draw(st.integers(len(MAGIC), len(whole) - 1))
    with pytest.raises(SkipjackError, match="damaged"):
        unpack(whole[:cut])


@given(st.binary(max_size=100).filter(lambda data: not data.startswith(MAGIC)))
def test_other_bytes_are_no_artifact(data: bytes) -> None:
    with pytest.raises(SkipjackError, match="not a GPU artifact"):
        unpack(data)


@pytest.mark.parametrize("abi", ["gpu-0", "gpu-2", ""])
def test_another_launch_abi_is_refused_by_name(abi: str) -> None:
    whole = pack(GpuArtifact("sm_90", (), ()))
    start = len(MAGIC) + 8
    header = json.loads(whole[start:])
    text = json.dumps({**header, "abi": abi}).encode()
    with pytest.raises(SkipjackError, match=f"launch ABI '{abi}' is not known here, only '{ABI}'"):
        unpack(MAGIC + struct.pack("<Q", len(text)) + text)


def test_a_kernel_that_is_not_there_is_said_with_those_that_are() -> None:
    artifact = GpuArtifact("sm_90", (KernelAbi("main", "m", (), 128),), (b"",))
    assert artifact.kernel("main").symbol == "m"
    with pytest.raises(SkipjackError, match="no kernel 'join', only main"):
        artifact.kernel("join")
