"""Where the quick reader has an answer, it is that of the parsers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import DTYPES, Problem
from skipjack.errors import SkipjackError
from skipjack.interop import (
    CONV,
    NotApplicable,
    QuickConv,
    parse_driver,
    parse_find_db,
    quick_command,
    quick_find_db,
    quick_key,
)
from skipjack.operations import DIRECTIONS, parse

_SIZES = st.one_of(
    st.integers(0, 40).map(str),
    st.sampled_from(["08", "+3", "-1", "1_0", "²", "99999999999", "2000000000", "x", '"7"', "3#"]),
)
_WORDS = st.sampled_from(
    ["conv", "trans", "default", "same", "NCHW", "nhwc", "NHWC", "2", "3", "0", "1", "7", "-1"]
)
_USUAL = st.tuples(
    st.sampled_from([flag for flag in CONV if flag.use == "number"]), st.booleans(), _SIZES
)
_OTHERS = st.tuples(st.sampled_from(CONV), st.booleans(), _WORDS)


@st.composite
def commands(draw: st.DrawFn) -> str:
    """Mostly sound ones, with anything in them at times."""
    base = draw(st.sampled_from(["conv", "conv", "convfp16", "convbfp16", "convint8", "bnorm"]))
    sizes = draw(st.lists(st.integers(1, 40), min_size=7, max_size=7))
    words = [f"-{at} {size}" for at, size in zip("ncHWkyx", sizes, strict=True)]
    for flag, short, value in draw(st.lists(_USUAL | _OTHERS, max_size=4)):
        words.append(f"{f'-{flag.letter}' if short else f'--{flag.name}'} {value}")
    words = draw(st.permutations(words))
    ends = draw(st.sampled_from(["", "", "", " -F", " -F 1", " -F 6", " -t 1 # end", ' -t 1" x']))
    return f" {base} {' '.join(words)}{ends}"


def _keys(conv: QuickConv, usual: tuple[str, ...]) -> list[str]:
    return [f"{conv.key()}:{direction}" for direction in conv.directions or usual]


@given(commands())
@settings(deadline=None)
def test_commands(command: str) -> None:
    conv = quick_command(command)
    if conv is None:
        return
    entries = parse_driver(f"MIOpenDriver{command}")
    keys = [entry.key if isinstance(entry, Problem) else entry.text for entry in entries]
    assert keys == _keys(conv, DIRECTIONS)
    assert all(isinstance(entry, NotApplicable) for entry in entries) == (conv.dtype not in DTYPES)


def test_the_usual_command_is_read_quickly() -> None:
    command = (
        " conv -n 64 -c 128 -H 28 -W 28 -k 256 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 "
        "-m conv -g 1 -F 2 -t 1"
    )
    conv = quick_command(command)
    assert conv is not None
    assert _keys(conv, ()) == ["conv2d:n64c128h28w28k256y3x3p1q1u2v2:f32:NCHW:bwd"]
    assert conv.key(7) == "conv2d:n7c128h28w28k256y3x3p1q1u2v2:f32:NCHW"


@given(
    st.lists(st.integers(0, 30), min_size=7, max_size=7),
    st.lists(st.tuples(st.sampled_from("pquvljg"), st.integers(0, 4)), max_size=4),
    st.sampled_from(
        [
            "",
            ":f32",
            ":f64",
            ":f16",
            ":bf16",
            ":i8",
            ":NHWC",
            ":f64:NHWC:wrw",
            ":bwd",
            ":nhwc",
            ":x",
        ]
    ),
)
def test_keys(sizes: list[int], more: list[tuple[str, int]], end: str) -> None:
    text = "conv2d:" + "".join(f"{at}{size}" for at, size in zip("nchwkyx", sizes, strict=True))
    text += "".join(f"{at}{size}" for at, size in sorted(more, key=lambda m: "pquvljg".index(m[0])))
    conv = quick_key(text + end)
    if conv is not None:
        assert _keys(conv, ("fwd",)) == [parse(text + end).key]


@given(
    st.lists(st.integers(0, 20), min_size=15, max_size=15),
    st.sampled_from(["F", "B", "W", "F_g2"]),
    st.sampled_from(["NCHW-FP32", "NHWC-NHWC-NHWC-BF16", "NHWC-FP16", "NCHW-INT8", "NCHW-FP16"]),
    st.booleans(),
)
def test_find_db_keys(sizes: list[int], end: str, arrays: str, sound: bool) -> None:
    c, h, w, y, x, k, oh, ow, n, p, q, u, v, low, j = sizes
    if sound and u and v:
        oh = (h + 2 * p - (y - 1) * low - 1) // u + 1
        ow = (w + 2 * q - (x - 1) * j - 1) // v + 1
    one, two = f"{c}-{h}-{w}", f"{k}-{oh}-{ow}"
    first, second = (one, two) if end[0] == "F" else (two, one)
    key = f"{first}-{y}x{x}-{second}-{n}-{p}x{q}-{u}x{v}-{low}x{j}-0-{arrays}-{end}"
    conv = quick_find_db(key + "=S:1,0,a")
    try:
        entry = parse_find_db(key)
    except SkipjackError:
        assert conv is None
        return
    if conv is not None:
        assert isinstance(entry, Problem)
        assert _keys(conv, ()) == [entry.key]
