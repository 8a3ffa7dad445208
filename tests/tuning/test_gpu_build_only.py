"""Building for a GPU of another machine: sizes, registers and spills, launch ABI."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack import plugins
from skipjack.core import Status
from skipjack.gpu import ABI, Launch, Pointer, from_slots, unpack
from skipjack.tuning import BuildResult, build, write_objects

pytest.importorskip("triton")

TINY = Path(__file__).parents[1] / "tiny_gpu.py"


@pytest.fixture(scope="module")
def result(home: Path) -> Iterator[BuildResult]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, "")
        yield build("tiny:1000", "gfx942/304", solver="tiny", plugins=(str(TINY),))


def test_every_config_has_a_status_and_what_is_built_its_needs(result: BuildResult) -> None:
    fates = {str(entry.config["behaviour"]): entry for entry in result.builds}
    assert {name: entry.status for name, entry in fates.items()} == {
        "right": Status.OK,
        "refused": Status.BUILD_ERROR,
        "unknown": Status.BUILD_ERROR,
        "misassembled": Status.BUILD_ERROR,
        "crash": Status.BUILD_CRASH,
        "spills": Status.INFEASIBLE,
    }
    kernel = unpack(fates["right"].data).kernel("main")
    needs = {"registers": kernel.registers, "shared_bytes": 0, "spill_bytes": 0}
    assert fates["right"].needs == needs
    assert fates["spills"].needs["spill_bytes"] == 257
    assert fates["refused"].needs == {}


def test_machines_read_the_needs_and_the_target(result: BuildResult) -> None:
    record = result.to_json()
    assert (record["device"], record["target"]) == ("gfx942/304", "gfx942")
    assert not {"triple", "vector_bytes"} & set(record)
    builds = {entry["config"]["behaviour"]: entry for entry in record["builds"]}
    assert builds["right"]["registers"] > 0 == builds["right"]["spill_bytes"]
    assert builds["spills"]["spill_bytes"] == 257
    assert "text_bytes" not in builds["right"]


def test_binaries_are_written_with_all_that_a_launch_needs(
    result: BuildResult, tmp_path: Path
) -> None:
    written = write_objects(result, tmp_path)
    manifest = json.loads((tmp_path / "tiny-1000-f32.tiny.gfx942-304.json").read_text())
    assert (manifest["kind"], manifest["target"]) == ("objects", "gfx942")
    (entry,) = manifest["builds"]
    (kernel,) = entry["kernels"]
    built = next(one for one in written.builds if one.ok)
    artifact = unpack(built.data)
    assert (tmp_path / kernel["file"]).read_bytes() == artifact.binaries[0]
    assert built.path == tmp_path / kernel["file"]
    assert built.path.suffix == ".hsaco"
    assert (entry["abi"], kernel["symbol"], kernel["threads"]) == (ABI, "add", 256)
    assert [argument["type"] for argument in kernel["arguments"]] == [*["*fp32"] * 3, "i32"]
    (step,) = from_slots(entry["slots"])
    assert isinstance(step, Launch)
    assert (step.kernel, step.values[0]) == (kernel["name"], Pointer("x"))
    assert {path.suffix for path in tmp_path.iterdir()} == {".hsaco", ".json"}
