"""Kernels are built for GPUs that are not here, with all that a launch needs to know."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

from skipjack.execute.pool.worker_main import MOST_SPILL_BYTES, too_much_spilled
from skipjack.gpu import ABI, Argument, GpuArtifact, GpuBuildError, unpack
from skipjack.solvers.gpu.triton import Constant, KernelSpec, compilation
from skipjack.solvers.gpu.triton.compilation import compile_specs
from skipjack.solvers.gpu.triton.compiled_code import of_amdgcn

pytest.importorskip("triton")

KERNELS = str(Path(__file__).parents[2] / "tiny_kernels.py")
POINTER, NUMBER = Argument("*fp16", 16), Argument("i32")
ELF = b"\x7fELF"


def adding(function: str = "add", module: str = KERNELS, **options: Constant) -> KernelSpec:
    arguments = {"x": POINTER, "y": POINTER, "out": POINTER, "n": NUMBER}
    return KernelSpec("main", module, function, arguments, {"block": 256}, 2, options=options)


def multiplying(
    depth: int = 32, stages: int = 3, options: Mapping[str, Constant] | None = None
) -> KernelSpec:
    arguments = {
        "a": Argument(f"tensordesc<fp16[128, {depth}]>"),
        "b": Argument(f"tensordesc<fp16[{depth}, 64]>"),
        "out": POINTER,
        **dict.fromkeys(("m", "n", "k"), Argument("i32", 16)),
    }
    sizes = {"rows": 128, "columns": 64, "depth": depth}
    return KernelSpec("dot", KERNELS, "product", arguments, sizes, 4, stages, options or {})


def built(*specs: KernelSpec, target: str = "sm_90") -> GpuArtifact:
    return unpack(compile_specs(specs, target).data)


@pytest.mark.parametrize(
    ("target", "threads", "least"),
    [
        ("sm_80", 64, (12, 0)),
        ("sm_90", 64, (12, 0)),
        ("gfx908", 128, (6, 0)),
        ("gfx90a", 128, (6, 0)),
        ("gfx942", 128, (6, 0)),
    ],
)
def test_a_kernel_is_built_for_every_gpu(target: str, threads: int, least: tuple[int, int]) -> None:
    blob = compile_specs([adding()], target)
    artifact = unpack(blob.data)
    (kernel,), (binary,) = artifact.kernels, artifact.binaries
    assert (blob.abi, blob.symbol) == (ABI, "gpu")
    assert binary.startswith(ELF)
    assert (artifact.target, artifact.compiler) == (target, compilation.compiler_name())
    assert artifact.least_driver == least
    assert (kernel.name, kernel.symbol, kernel.threads) == ("main", "add", threads)
    assert kernel.arguments == (POINTER, POINTER, POINTER, NUMBER)
    assert (kernel.hidden_pointers, kernel.descriptors) == (2, ())
    assert 0 < kernel.registers < 64
    assert blob.resources == {
        "registers": kernel.registers,
        "shared_bytes": 0,
        "spill_bytes": 0,
        "binary_bytes": len(binary),
    }


def test_the_copy_engine_of_sm_90_gets_a_description_of_each_descriptor() -> None:
    (kernel,) = built(multiplying()).kernels
    assert [one["block_size"] for one in kernel.descriptors] == [[128, 32], [32, 64]]
    assert {one["elem_size"] for one in kernel.descriptors} == {2}
    assert kernel.hidden_pointers == 2
    # 3 stages of 128 x 32 and 32 x 64 halves, and a barrier for each stage
    assert 3 * (128 * 32 + 32 * 64) * 2 <= kernel.shared_bytes < 40_000


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_where_there_is_no_copy_engine_descriptors_are_taken_apart(target: str) -> None:
    (kernel,) = built(multiplying(), target=target).kernels
    assert (kernel.descriptors, kernel.hidden_pointers) == ((), 2)
    assert kernel.arguments[0].type == "tensordesc<fp16[128, 32]>"


def test_options_of_a_launch_are_in_the_abi() -> None:
    options = {"num_ctas": 2, "launch_pdl": True, "launch_cooperative_grid": True}
    kernel = built(multiplying(options=options)).kernel("dot")
    assert (kernel.cluster, kernel.dependent, kernel.cooperative) == ((2, 1, 1), True, True)


def test_several_kernels_make_one_artifact() -> None:
    blob = compile_specs([adding(), multiplying()], "sm_80")
    artifact = unpack(blob.data)
    assert [kernel.name for kernel in artifact.kernels] == ["main", "dot"]
    assert blob.resources["binary_bytes"] == sum(map(len, artifact.binaries))
    assert blob.resources["registers"] == artifact.kernel("dot").registers


def test_a_text_names_a_type_of_triton() -> None:
    arguments = {"x": POINTER, "out": Argument("*bf16", 16), "n": NUMBER}
    constants = {"block": 256, "to": "tl.bfloat16"}
    assert built(KernelSpec("main", KERNELS, "cast", arguments, constants)).kernels


def test_promises_change_the_code() -> None:
    aligned, plain = Argument("*fp16", 16), Argument("*fp16")
    constants = {"block": 256, "to": "tl.float16"}
    sizes = [
        built(
            KernelSpec("m", KERNELS, "cast", {"x": one, "out": one, "n": NUMBER}, constants, 1)
        ).binaries
        for one in (aligned, plain)
    ]
    assert sizes[0] != sizes[1]
    near = built(adding(pointer_range=32), target="gfx942").binaries
    assert near != built(adding(), target="gfx942").binaries


def test_equal_specs_give_equal_bytes_in_any_process_and_folder(tmp_path: Path) -> None:
    moved = tmp_path / "tiny_kernels.py"
    moved.write_text("# another comment\n\n" + Path(KERNELS).read_text())
    script = (
        "import sys; from test_compiling import adding, compile_specs\n"
        "for target in ('sm_90', 'gfx942'):\n"
        "    print(compile_specs([adding(module=sys.argv[1])], target).digest)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(moved)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    here = [compile_specs([adding()], target).digest for target in ("sm_90", "gfx942")]
    assert done.stdout.split() == here


def test_an_edited_file_is_loaded_anew(tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    text = Path(KERNELS).read_text()
    path.write_text(text)
    before = compile_specs([adding(module=str(path))], "sm_90").digest
    path.write_text(text.replace("constexpr(2.0)", "constexpr(3.0)"))
    assert compile_specs([adding(module=str(path))], "sm_90").digest != before


def test_triton_leaves_no_files(triton_home: Path, scratch: Path) -> None:
    compile_specs([adding(maxnreg=64)], "sm_90")  # a spec that no other test has built
    with pytest.raises(GpuBuildError):
        compile_specs([adding("misassembled")], "sm_90")
    assert not list(triton_home.rglob("*"))
    assert not list(scratch.iterdir())


@pytest.mark.parametrize(
    ("spec", "target", "said"),
    [
        (adding("refused"), "sm_90", "main: .*has no attribute 'no_such_method'.* \\(line 2 of"),
        (adding("misassembled"), "sm_90", "main: ptxas: Unknown modifier '.such'"),
        (adding("nothing"), "sm_90", r"tiny_kernels.py has no function 'nothing'"),
        (adding("FACTOR"), "sm_90", "'FACTOR' of .* is not a function made by triton.jit"),
        (adding("cast"), "sm_90", "cast takes x, out, n, block, to; .* differ in to, y"),
        (
            adding(module="skipjack.no_such_module"),
            "sm_90",
            "no Python module skipjack.no_such_module",
        ),
        (adding(num_ctas=2), "gfx942", "main: ValueError: num_ctas > 1 not supported on gfx942"),
        (
            multiplying(128, 6),
            "sm_90",
            r"dot: needs \d+ bytes of shared memory, sm_90 has 232448",
        ),
    ],
)
def test_what_cannot_be_built_is_one_line(spec: KernelSpec, target: str, said: str) -> None:
    with pytest.raises(GpuBuildError, match=said) as caught:
        compile_specs([spec], target)
    assert "\n" not in str(caught.value)


def test_interpreting_is_not_compiling() -> None:
    script = "from test_compiling import adding, compile_specs; compile_specs([adding()], 'sm_90')"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert "TRITON_INTERPRET=1 makes Triton interpret" in done.stderr


def test_without_triton_the_name_says_so_and_building_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nowhere(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    assert compilation.missing() == ""
    monkeypatch.setattr(metadata, "version", nowhere)
    compilation.compiler_name.cache_clear()
    try:
        assert compilation.compiler_name() == "triton (not installed)"
        with pytest.raises(GpuBuildError, match=r"install skipjack\[triton\]"):
            compile_specs([adding()], "sm_90")
    finally:
        compilation.compiler_name.cache_clear()


def test_amds_compiler_tells_spills_in_its_assembly() -> None:
    assembly = "    .private_segment_fixed_size: 580\n    .vgpr_count:     256\n"
    usage = of_amdgcn(f"amdhsa.kernels:\n  - .agpr_count: 0\n{assembly}")
    assert (usage.registers, usage.spill_bytes) == (256, 580)


def test_what_spills_more_than_the_limit_is_not_worth_running() -> None:
    assert not too_much_spilled({"spill_bytes": MOST_SPILL_BYTES})
    assert not too_much_spilled({"object_bytes": 100.0})
    assert "spills 257 bytes per thread" in too_much_spilled({"spill_bytes": 257.0})
