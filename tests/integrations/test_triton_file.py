"""``file.py::kernel``: a user's kernel with its adapter is tuned like one of ours."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("triton")

from skipjack import operations, plugins, solvers
from skipjack.core import Candidate, Config, Countable, Device, Problem, Status
from skipjack.errors import UsageError
from skipjack.execute.pool import BuildPool
from skipjack.integrations.triton import is_user_kernel, load_user_kernel
from skipjack.integrations.triton.configs import ListedSpace
from skipjack.solvers.gpu.triton import TritonSolver

EXAMPLE = Path(__file__).parents[2] / "examples" / "triton" / "my_softmax.py"
HOPPER = Device("cuda", "sm_90", 132)
SCALE = """
import numpy as np
import triton
import triton.language as tl

import skipjack


@triton.jit
def scale(y, x, n, step, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at * step, mask=at < n) * factor, mask=at < n)


def blocks(at):
    return (triton.cdiv(at["n"], at["BLOCK"]),)


skipjack.triton_kernel(
    scale,
    shape=("n",),
    inputs={"x": ("n",)},
    outputs={"y": ("n",)},
    arguments={"step": 1, "factor": 2.5},
    grid=blocks,
    space={"BLOCK": [64, 128, 256], "num_warps": [1, 2]},
    constraints=["BLOCK <= n"],
    reference=lambda x: 2.5 * x,
    dtypes=("f32", "f16"),
)
"""

pytestmark = pytest.mark.usefixtures("fresh_registries")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_scale.py"
    path.write_text(SCALE)
    return path


def load(path: Path, *shapes: str, dtype: str | None = None) -> list[Problem]:
    return load_user_kernel(f"{path}::scale", list(shapes), dtype)


def solver_of(problem: Problem) -> TritonSolver:
    solver = solvers.solver_for(problem, HOPPER)
    assert isinstance(solver, TritonSolver)
    return solver


def test_a_kernel_in_a_file_is_told_from_a_problems_key() -> None:
    assert is_user_kernel("a/my_softmax.py::softmax")
    assert not is_user_kernel("matmul:192x192x192")
    assert not is_user_kernel("conv.py")


def test_shapes_become_problems_that_name_the_source(file: Path) -> None:
    one, two = load(file, "1000", "64", dtype="f16")
    assert one.key.startswith("my_scale__scale:1000/source=")
    assert (two.shape, two.dtype) == ((64,), "f16")
    assert operations.parse(one.key) == one
    assert load(file, "64")[0].dtype == "f32"


def test_a_config_is_a_spec_and_a_launch(file: Path) -> None:
    (problem,) = load(file, "1000")
    solver, config = solver_of(problem), Config(BLOCK=128, num_warps=2)
    (spec,) = solver.kernels(problem, HOPPER, config)
    assert {name: one.type for name, one in spec.arguments.items()} == {
        **{"y": "*fp32", "x": "*fp32", "n": "i32", "factor": "fp32"},
    }
    assert spec.arguments["n"].divisible == 1
    assert spec.constants == {"step": 1, "BLOCK": 128}
    assert (spec.warps, spec.stages) == (2, 3)
    (step,) = map(json.loads, map(str, solver.slots(problem, HOPPER, config)))
    assert step["grid"] == [8, 1, 1]
    assert step["values"] == ["y", "x", ["@i32", 1000], ["@f32", 2.5]]


def test_sizes_that_divide_are_told_to_the_compiler(file: Path) -> None:
    (problem,) = load(file, "1024")
    (spec,) = solver_of(problem).kernels(problem, HOPPER, Config(BLOCK=64, num_warps=1))
    assert spec.arguments["n"].divisible == 16


def test_constraints_read_the_sizes(file: Path) -> None:
    (problem,) = load(file, "100")
    space = solver_of(problem).space(problem, HOPPER)
    assert space.contains(Config(BLOCK=64, num_warps=1))
    assert not space.contains(Config(BLOCK=128, num_warps=1))


def test_what_a_compiler_ignores_does_not_vary(file: Path) -> None:
    values = '"num_warps": [1, 2], "maxnreg": [64, 128], "waves_per_eu": [1, 2, 3]'
    file.write_text(SCALE.replace('"num_warps": [1, 2]', values))
    (problem,) = load(file, "1000")
    for device, count in ((HOPPER, 3 * 2 * 2), (Device("hip", "gfx942", 304), 3 * 2 * 3)):
        space = solver_of(problem).space(problem, device)
        assert isinstance(space, Countable)
        assert space.count() == count


def test_listed_configs_that_differ_in_what_is_ignored_are_one(file: Path) -> None:
    listed = [{"BLOCK": 64, "waves_per_eu": waves} for waves in (1, 2)]
    space = 'space={"BLOCK": [64, 128, 256], "num_warps": [1, 2]},\n    constraints=["BLOCK <= n"]'
    assert space in SCALE
    file.write_text(SCALE.replace(space, f"configs={listed}"))
    (problem,) = load(file, "1000")
    configs = [
        len(list(solver_of(problem).space(problem, device).enumerate()))  # type: ignore[attr-defined]
        for device in (HOPPER, Device("hip", "gfx942", 304))
    ]
    assert configs == [1, 2]


def test_the_reference_and_its_scale_are_the_users(file: Path) -> None:
    (problem,) = load(file, "4")
    x = np.array([0.0, -1.0, 2.0, 4.0])
    assert operations.references(problem, {"x": x})["y"].tolist() == [0.0, -2.5, 5.0, 10.0]
    assert operations.magnitudes(problem, {"x": x})["y"].min() > 0.0


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("import numpy as np", "import numpy as np  # for the reference", True),
        ('"num_warps": [1, 2]', '"num_warps": [1, 2, 4]', True),
        ("2.5 * x", "x * 2.5", False),
        ('dtypes=("f32", "f16")', 'tolerance=8.0, dtypes=("f32", "f16")', False),
        ('dtypes=("f32", "f16")', 'dtypes=("f32", "f16", "bf16")', True),
        ("* factor, mask", "* factor + 1.0, mask", False),
        ('"factor": 2.5', '"factor": 3.5', False),
        ('triton.cdiv(at["n"], at["BLOCK"])', '1 + at["n"] // at["BLOCK"]', False),
    ],
)
def test_edits_that_change_no_run_keep_the_problem(
    file: Path, old: str, new: str, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = load(file, "1000")
    assert old in SCALE
    file.write_text(SCALE.replace(old, new) + "\n# and a line\n")
    monkeypatch.setattr(plugins, "_loaded", {})
    (after,) = load(file, "1000")
    assert (before == after) is same
    if not same:
        solver = solvers.find_solver(before.operation)
        assert "has changed since" in solver.refuses(before, HOPPER)


def test_build_workers_know_the_kernel(file: Path, user_dir: Path) -> None:
    (problem,) = load(file, "1000")
    config = Config(BLOCK=128, num_warps=1)
    with BuildPool(1, HOPPER) as pool:
        pool.submit(Candidate(problem, "my_scale__scale", config))
        builds = []
        while not builds:
            builds = pool.poll(30.0)
    assert builds[0].status is Status.OK, builds[0].reason
    assert builds[0].resources["registers"] > 0


def test_the_example_builds_for_both_vendors() -> None:
    (problem,) = load_user_kernel(f"{EXAMPLE}::softmax", ["4096x1000"], "f16")
    for device in (HOPPER, Device("hip", "gfx942", 304)):
        solver = solvers.solver_for(problem, device)
        source = solver.lower(problem, device, solver.space(problem, device).default())
        assert solver.compile(source).resources["binary_bytes"] > 0


def test_what_is_wrong_is_told_in_one_sentence(file: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load_user_kernel("nowhere.py::scale", ["4"])
    with pytest.raises(UsageError, match="no function 'skale'; functions with adapters: scale"):
        load_user_kernel(f"{file}::skale", ["4"])
    with pytest.raises(UsageError, match=r"no adapter for blocks: call skipjack\.triton_kernel"):
        load_user_kernel(f"{file}::blocks", ["4"])
    with pytest.raises(UsageError, match=r"takes shapes as n: .* has 2 sizes but needs 1"):
        load(file, "4x4")
    with pytest.raises(UsageError, match="is not a shape"):
        load(file, "large")
    with pytest.raises(UsageError, match="needs a shape: add --shapes n"):
        load(file)
    with pytest.raises(UsageError, match="unknown dtype 'f64'"):
        load(file, "4", dtype="f64")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"step": 1, ', "", "does not say what 'step' is: give it in arguments"),
        ('"step": 1', '"stepp": 1', "'stepp', which the function does not take"),
        ('"num_warps": [', '"num_warp": [', "varies 'num_warp'"),
        ('("f32", "f16")', '("f32", "half")', "unknown dtype 'half'"),
        ('("f32", "f16")', "()", "has no dtypes"),
        ('("f32", "f16")', '"f16"', r'dtypes=\("f16",\)'),
        ('shape=("n",)', 'shape="n"', r'shape=\("n",\)'),
        ('inputs={"x": ("n",)}', 'inputs={"x": "n"}', "gives 'x' the axes 'n'"),
        ('inputs={"x": ("n",)}', 'inputs={"x": ("m",)}', "axis 'm', .* needs m; known names are n"),
        ('outputs={"y"', 'outputs={"y:f31"', "unknown dtype 'f31'"),
        ("grid=blocks", "grid=(1, 1, 1, 1)", "one to three numbers of blocks"),
        ("grid=blocks", "grid=()", "one to three numbers of blocks"),
        ("grid=blocks", 'grid=("m",)', "'m' in its grid, .* needs m; known names are BLOCK, n"),
        ('"factor": 2.5', '"factor": "half"', "argument 'factor' as 'half', .* needs half"),
        ("lambda x: 2.5", "lambda z: 2.5", "reference that does not take 'x'"),
        ("lambda x: 2.5", "lambda x, m: m", "reference that takes 'm': .*sizes .*(n)"),
        ('outputs={"y"', 'outputs={"x"', "names tensor 'x' twice"),
        ("    scale,\n", "    blocks,\n", "blocks is not a function made by triton.jit"),
    ],
)
def test_an_adapter_that_cannot_work_is_refused_when_it_is_read(
    file: Path, old: str, new: str, complaint: str
) -> None:
    assert old in SCALE
    file.write_text(SCALE.replace(old, new))
    with pytest.raises(UsageError, match=complaint):
        load(file, "1000")


def test_an_autotuners_configs_are_taken(file: Path) -> None:
    source = SCALE.replace(
        "@triton.jit\n",
        '@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=1), '
        'triton.Config({"BLOCK": 128})], key=["n"])\n@triton.jit\n',
    ).replace('    space={"BLOCK": [64, 128, 256], "num_warps": [1, 2]},\n', "")
    file.write_text(source.replace('    constraints=["BLOCK <= n"],\n', ""))
    (problem,) = load(file, "1000")
    space = solver_of(problem).space(problem, HOPPER)
    assert isinstance(space, ListedSpace)
    assert [(c["BLOCK"], c["num_warps"]) for c in space.enumerate()] == [(64, 1), (128, 4)]


def test_a_list_of_configs_is_a_space() -> None:
    space = ListedSpace([{"a": a, "b": b} for a in (1, 2, 3) for b in ("x", "y")])
    listed = list(space.enumerate())
    assert space.count() == len(set(listed)) == 6
    assert space.default() == listed[0] == space.promising(1)[0]
    drawn = {space.sample(np.random.default_rng(seed)) for seed in range(40)}
    assert drawn == set(listed)
    for config in listed:
        near = space.neighbours(config)
        assert near and config not in near and all(map(space.contains, near))


ACT = SCALE.replace("BLOCK: tl.constexpr)", "BLOCK: tl.constexpr, ACT: tl.constexpr)")


def test_a_text_among_the_constants_has_quotes_of_its_own(file: Path) -> None:
    with_text = ACT.replace("    grid=", '    constants={"ACT": "\'relu\'"},\n    grid=')
    file.write_text(with_text)
    (problem,) = load(file, "1000")
    (spec,) = solver_of(problem).kernels(problem, HOPPER, Config(BLOCK=64, num_warps=1))
    assert spec.constants["ACT"] == "relu"


@pytest.mark.parametrize(
    ("constants", "complaint"),
    [
        (
            '{"ACT": "relu"}',
            "'ACT' as 'relu', .*known names are .*a string needs quotes of its own: \"'relu'\"",
        ),
        ("{}", "does not say what 'ACT' is: give it in constants, as .*'relu'"),
    ],
)
def test_a_text_without_them_is_told_so(file: Path, constants: str, complaint: str) -> None:
    file.write_text(ACT.replace("    grid=", f"    constants={constants},\n    grid="))
    with pytest.raises(UsageError, match=complaint):
        load(file, "1000")


@pytest.mark.parametrize(
    ("grid", "complaint"),
    [
        ("lambda at: 7", "the grid of scale is 7: write one to three"),
        ("lambda at: ()", r"the grid of scale is \(\): write one to three"),
        ("lambda at: (1, 2, 3, 4)", "write one to three"),
        (
            'lambda at: (at["m"],)',
            "the grid of scale needs 'm', which is not one of n, BLOCK, num_warps",
        ),
        ('lambda at: (at["n"] / 2,)', "the grid of scale is 500.0, which is not a whole number"),
    ],
)
def test_a_grid_that_is_none_is_told_in_one_sentence(file: Path, grid: str, complaint: str) -> None:
    file.write_text(SCALE.replace("grid=blocks", f"grid={grid}"))
    (problem,) = load(file, "1000")
    with pytest.raises(UsageError, match=complaint):
        solver_of(problem).slots(problem, HOPPER, Config(BLOCK=64, num_warps=1))


def test_numpys_whole_numbers_are_whole(file: Path) -> None:
    file.write_text(SCALE.replace("grid=blocks", "grid=lambda at: [np.int64(4)]"))
    (problem,) = load(file, "1000")
    (slot,) = solver_of(problem).slots(problem, HOPPER, Config(BLOCK=64, num_warps=1))
    assert json.loads(str(slot))["grid"] == [4, 1, 1]


def test_a_kernel_has_one_adapter(file: Path) -> None:
    call = SCALE[SCALE.index("skipjack.triton_kernel(") :]
    file.write_text(SCALE + call.replace("shape=", 'name="other", shape='))
    with pytest.raises(UsageError, match=r"my_scale\.py has two adapters for scale"):
        load(file, "1000")
