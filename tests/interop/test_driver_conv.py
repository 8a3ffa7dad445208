"""Commands for convolutions, as the driver reads them."""

import pytest

from skipjack.core import Problem
from skipjack.errors import ProblemError
from skipjack.interop import Defaults, Entry, NotApplicable, parse_driver
from skipjack.operations import Convolution, outputs, parse, tensors


def text_of(entry: Entry) -> str:
    return entry.key if isinstance(entry, Problem) else entry.text


def texts(line: str) -> list[str]:
    return [text_of(entry) for entry in parse_driver(line)]


def only(line: str) -> Problem:
    (problem,) = parse_driver(line)
    assert isinstance(problem, Problem), problem
    return problem


def reason(line: str) -> str:
    (entry,) = parse_driver(line)
    assert isinstance(entry, NotApplicable), entry
    return entry.reason


SMALL = "MIOpenDriver conv -n 2 -c 4 -H 9 -W 9 -k 6 -y 3 -x 3 -F 1"


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        (
            "./bin/MIOpenDriver conv -n 64 -c 128 -H 28 -W 28 -k 256 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 "
            "-l 1 -j 1 -m conv -g 1 -F 1 -t 1",
            ["conv2d:n64c128h28w28k256y3x3p1q1:f32:NCHW:fwd"],
        ),
        (
            "MIOpenDriver convfp16 -n 32 -c 256 -H 57 -W 57 -k 512 -y 1 -x 1 -u 2 -v 2 -F 2",
            ["conv2d:n32c256h57w57k512y1x1u2v2:f16:NCHW:bwd"],
        ),
        (
            "MIOpenDriver convbfp16 -n 16 -c 64 -H 80 -W 45 -k 96 -y 5 -x 3 -p 2 -q 1 "
            "--in_layout NHWC --fil_layout NHWC --out_layout NHWC -F 4",
            ["conv2d:n16c64h80w45k96y5x3p2q1:bf16:NHWC:wrw"],
        ),
        (
            "MIOpenDriver conv --batchsize 8 --in_channels 144 --in_h 56 --in_w 56 "
            "--out_channels 144 --fil_h 3 --fil_w 3 --pad_h 1 --pad_w 1 --conv_stride_h 2 "
            "--conv_stride_w 2 --group_count 144 --forw 1",
            ["conv2d:n8c144h56w56k144y3x3p1q1u2v2g144:f32:NCHW:fwd"],
        ),
        (
            "MIOpenDriver convfp16 --spatial_dim 3 -n 4 -c 32 --in_d 16 -H 64 -W 64 -k 64 "
            "--fil_d 3 -y 3 -x 3 --pad_d 1 -p 1 -q 1 --conv_stride_d 1 -u 2 -v 2 --dilation_d 1 "
            "-l 1 -j 1 -F 1",
            ["conv3d:n4c32d16h64w64k64z3y3x3o1p1q1u2v2:f16:NCDHW:fwd"],
        ),
        (
            "MIOpenDriver conv -n 8 -c 64 -H 16 -W 16 -k 32 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 "
            "-m trans -F 1",
            ["conv_transpose2d:n8c64h16w16k32y4x4p1q1u2v2:f32:NCHW:fwd"],
        ),
        (
            "miopenConvolutionForward: ./bin/MIOpenDriver convfp16 -n 2 -c 48 -H 33 -W 65 -k 48 "
            "-y 3 -x 3 -p 6 -q 6 -l 6 -j 6 -F 0",
            [
                f"conv2d:n2c48h33w65k48y3x3p6q6l6j6:f16:NCHW:{direction}"
                for direction in ("fwd", "bwd", "wrw")
            ],
        ),
        (
            "./bin/MIOpenDriver bnormfp16 -n 128 -c 256 -H 14 -W 14 -m 1 --forw 1 -b 0 -s 1 -r 1",
            ["batchnorm:n128c256h14w14/eps=1e-05/mode=train:f16"],
        ),
    ],
)
def test_commands_have_keys(line: str, keys: list[str]) -> None:
    assert texts(line) == keys


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("-n 64 -c 128 -H 28 -W 28 -k 256 -p 1 -q 1 -F 1", (64, 256, 28, 28)),
        ("-n 32 -c 256 -H 57 -W 57 -k 512 -y 1 -x 1 -u 2 -v 2 -F 1", (32, 512, 29, 29)),
        ("-n 16 -c 64 -H 80 -W 45 -k 96 -y 5 -x 3 -p 2 -q 1 -F 1", (16, 96, 80, 45)),
        ("-n 8 -c 144 -H 56 -W 56 -k 144 -p 1 -q 1 -u 2 -v 2 -g 144 -F 1", (8, 144, 28, 28)),
        (
            "-_ 3 -n 4 -c 32 -! 16 -H 64 -W 64 -k 64 -@ 3 -$ 1 -p 1 -q 1 -# 1 -u 2 -v 2 -^ 1 -F 1",
            (4, 64, 16, 32, 32),
        ),
        (
            "-n 8 -c 64 -H 16 -W 16 -k 32 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -m trans -F 1",
            (8, 32, 32, 32),
        ),
        ("-n 2 -c 48 -H 33 -W 65 -k 48 -p 6 -q 6 -l 6 -j 6 -F 1", (2, 48, 33, 65)),
        ("-n 1 -c 8 -H 16 -W 16 -k 4 -u 2 -v 2 -Y 1 -X 1 -m trans -F 1", (1, 4, 34, 34)),
    ],
)
def test_outputs_have_the_size_that_the_driver_gives_them(
    line: str, shape: tuple[int, ...]
) -> None:
    (output,) = outputs(only(line))
    assert output.shape == shape


def test_what_a_command_leaves_out_is_the_drivers_default() -> None:
    assert texts("MIOpenDriver conv -F 1") == ["conv2d:n100c3h32w32k32y3x3:f32:NCHW:fwd"]
    assert texts("MIOpenDriver conv --spatial_dim 3 -F 1") == [
        "conv3d:n100c3d32h32w32k32z3y3x3:f32:NCDHW:fwd"
    ]


@pytest.mark.parametrize(
    ("forw", "directions"),
    [
        *(("", "fwd bwd wrw"), ("-F 0", "fwd bwd wrw"), ("-F 7", "fwd bwd wrw")),
        *(("-F 1", "fwd"), ("-F 2", "bwd"), ("-F 4", "wrw")),
        *(("-F 3", "fwd bwd"), ("-F 5", "fwd wrw"), ("--forw 6", "bwd wrw")),
    ],
)
def test_forw_is_a_set_of_directions(forw: str, directions: str) -> None:
    entries = parse_driver(f"MIOpenDriver conv -n 1 {forw}")
    assert [entry.direction for entry in entries if isinstance(entry, Problem)] == (
        directions.split()
    )


def test_flags_about_running_are_accepted_and_mean_nothing() -> None:
    extra = (
        "-i 5 -t 1 -V 0 -s 1 -b 1 -w 1 -S 85 -P 0 -G 0 -C /tmp/cache -o 1 "
        "--iter 5 --time 1 --verify 0 --search 1 --bias 1 --wall 2 --solution ConvAsm1x1U "
        "--printconv 0 --gpualloc 1 --tuning_policy 3 --dump_output 1 --in_data a.bin"
    )
    assert parse_driver(f"{SMALL} {extra}") == parse_driver(SMALL)


def test_a_negative_value_is_no_flag() -> None:
    assert parse_driver(f"{SMALL} -S -1 -U -1") == parse_driver(SMALL)


def test_of_a_flag_given_twice_the_last_one_counts() -> None:
    assert parse_driver(f"{SMALL} -n 5 --batchsize 2 -F 2 -F 1") == parse_driver(SMALL)


def test_depths_mean_nothing_to_two_dimensions() -> None:
    depth = "--in_d 1 --fil_d 1 --pad_d 0 --conv_stride_d 0 --dilation_d 0 --trans_output_pad_d 0"
    assert parse_driver(f"{SMALL} {depth}") == parse_driver(SMALL)


def test_no_groups_are_one_group_and_output_pads_are_for_transposed_ones() -> None:
    assert parse_driver(f"{SMALL} -g 0 -Y 3 -X 3") == parse_driver(SMALL)


def test_older_names_of_strides_are_known() -> None:
    assert parse_driver(f"{SMALL} --conv_stride_0 2 --conv_stride_1 1") == parse_driver(
        f"{SMALL} -u 2 -v 1"
    )


# Layouts


def layouts(*values: str) -> str:
    flags = ("--in_layout", "--fil_layout", "--out_layout")
    return " ".join(f"{flag} {value}" for flag, value in zip(flags, values, strict=True))


def test_a_layout_may_be_in_any_case_and_by_letter() -> None:
    wanted = "conv2d:n2c4h9w9k6y3x3:f32:NHWC:fwd"
    assert texts(f"{SMALL} {layouts('NHWC', 'nhwc', 'Nhwc')}") == [wanted]
    assert texts(f"{SMALL} -I nhwc -O NHWC -f NHWC") == [wanted]


@pytest.mark.parametrize(
    ("flags", "layout"),
    [("--out_layout NHWC", "NHWC"), ("-O nhwc", "NHWC"), ("--out_layout NCHW", "NCHW")],
)
def test_the_layout_of_the_output_alone_is_that_of_all_arrays(flags: str, layout: str) -> None:
    assert texts(f"{SMALL} {flags}") == [f"conv2d:n2c4h9w9k6y3x3:f32:{layout}:fwd"]
    with pytest.raises(ProblemError, match=f"says {layout} but the layout asked for is"):
        parse_driver(f"{SMALL} {flags}", Defaults(layout="NHWC" if layout == "NCHW" else "NCHW"))


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (layouts("NHWC", "NCHW", "NHWC"), "NHWC-NCHW-NHWC"),
        ("--in_layout NHWC", "NHWC-NCHW-NCHW"),  # those left out are NCHW to the driver
        ("--in_layout NCHW --out_layout NHWC", "NCHW-NCHW-NHWC"),
        (layouts("CHWN", "CHWN", "CHWN"), "CHWN"),
    ],
)
def test_layouts_that_differ_are_not_applicable(flags: str, shown: str) -> None:
    assert texts(f"{SMALL} {flags}") == [f"conv2d:n2c4h9w9k6y3x3:f32:{shown}:fwd"]
    assert "must have the layout NCHW or NHWC" in reason(f"{SMALL} {flags}")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("--in_layout NWHC", "in_layout is 'NWHC'; it must be one of"),
        ("--in_layout NCDHW", "in_layout NCDHW has 3 spatial axes, but spatial_dim is 2"),
        ("-_ 3 -I NHWC", "in_layout NHWC has 2 spatial axes, but spatial_dim is 3"),
    ],
)
def test_a_layout_that_does_not_exist_or_fit_is_refused(flags: str, complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        parse_driver(f"{SMALL} {flags}")


# What kernels here cannot do


@pytest.mark.parametrize(("base", "dtype"), [("convfp16", "f16"), ("convbfp16", "bf16")])
def test_half_precisions_are_problems(base: str, dtype: str) -> None:
    (problem,) = parse_driver(SMALL.replace("conv", base))
    assert problem == parse(f"conv2d:n2c4h9w9k6y3x3:{dtype}:NCHW:fwd")


@pytest.mark.parametrize(("base", "dtype"), [("convint8", "i8"), ("convfp8", "f8")])
def test_other_precisions_are_understood_but_not_applicable(base: str, dtype: str) -> None:
    line = SMALL.replace("conv", base)
    assert texts(line) == [f"conv2d:n2c4h9w9k6y3x3:{dtype}:NCHW:fwd"]
    assert reason(line) == f"its dtype is {dtype}; kernels support f32, f64, f16, bf16 or tf32"


@pytest.mark.parametrize("flag", ["--vector_length 4", "-Z 1", "-r 3", "--in_cast_type fp8"])
def test_what_no_key_can_say_is_not_applicable(flag: str) -> None:
    assert "kernels do not support" in reason(f"{SMALL} {flag}")
    assert texts(f"{SMALL} {flag}") != texts(SMALL)


# Padding


@pytest.mark.parametrize(
    ("flags", "pads"),
    [
        ("-H 9 -W 9 -z same", (1, 1)),
        ("-H 9 -W 9 -y 5 -x 1 -z same", (2, 0)),
        ("-H 8 -W 9 -y 4 -x 3 -u 2 -v 1 --pad_mode same", (1, 1)),
        ("-H 9 -W 9 -u 2 -v 2 -z same", (1, 1)),
        ("-H 9 -W 9 -p 1 -q 2 -z valid", (0, 0)),
        ("-H 9 -W 9 -p 1 -q 2 -z default", (1, 2)),
        ("-H 9 -W 9 -p 1 -q 2 -l 2 -z valid", (1, 2)),  # the driver ignores it if dilated
        ("-H 9 -W 9 -y 1 -x 1 -p 1 -q 2 -l 2 -z valid", (0, 0)),  # unless a dilation is idle
    ],
)
def test_pad_modes_become_pads(flags: str, pads: tuple[int, int]) -> None:
    problem = only(f"MIOpenDriver conv -n 1 -F 1 {flags}")
    have = dict(zip(Convolution().letters, problem.shape, strict=True))
    assert (have["p"], have["q"]) == pads


def test_a_transposed_convolution_has_no_pad_mode() -> None:
    line = "MIOpenDriver conv -n 1 -F 1 -m trans -p 1 -q 1"
    assert parse_driver(f"{line} -z valid") == parse_driver(line)


def test_padding_that_is_uneven_is_not_applicable() -> None:
    line = "MIOpenDriver conv -n 1 -F 1 -y 2 -x 2 -z same"
    assert "both sides equally" in reason(line)
    assert texts(line) == ["conv2d:n1c3h32w32k32y2x2/pad_mode=same:f32:NCHW:fwd"]


def test_operands_are_the_drivers() -> None:
    shapes = {each.name: each.shape for each in tensors(only(f"{SMALL} -g 2"))}
    assert shapes == {"x": (2, 4, 9, 9), "w": (6, 2, 3, 3), "out": (2, 6, 7, 7)}
    shapes = {each.name: each.shape for each in tensors(only(f"{SMALL} -g 2 -m trans"))}
    assert shapes == {"x": (2, 4, 9, 9), "w": (4, 3, 3, 3), "out": (2, 6, 11, 11)}
