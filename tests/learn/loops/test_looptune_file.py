"""Benchmark files of LoopTune name the products that they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from skipjack.errors import MalformedError, UsageError
from skipjack.learn.loops import find_problems
from skipjack.learn.loops.problems import parse_benchmark

BENCHMARK = """v:m
v:k
v:n
n:2::0,1,:::0:::::
n:2::1,2,:::0:::::
n:7:0,1,:0,1,2,:::0:{loops}::,,,::
n:5:2,:0,2,:::0:{loops}::,,,::
n:1:3,:0,2,:::0:0;8;0,2;16;0,::,,::
i:0,1,
o:4,
"""
UNTUNED = "0;8;0,1;32;0,2;16;0,"


def test_a_file_is_the_product_of_its_loops(tmp_path: Path) -> None:
    path = tmp_path / "mm8_16_32.txt"
    path.write_text(BENCHMARK.format(loops=UNTUNED))
    (problem,) = find_problems(str(path))
    assert problem.key == "matmul:8x16x32:f32"


def test_sizes_are_those_of_all_loops_on_a_variable() -> None:
    # m in rounds of 4 with 3 left over; k in 5 rounds of 6; and a cursor on the first line
    text = "0\n" + BENCHMARK.format(loops="0;2;3,1;5;0,0;4;0,1;6;0,2;16;0,")
    assert parse_benchmark(text, "file").key == "matmul:11x16x30:f32"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a product of two matrices"),
        ("n:7:0\n", "'n:7:0' is not a node"),
        (BENCHMARK.format(loops="0;8;0,nonsense"), "is not a node"),
        (BENCHMARK.format(loops=UNTUNED).replace("n:5", "n:6"), "not a product"),
        (BENCHMARK.format(loops=UNTUNED).replace("n:2::1,2,", "n:2::2,1,"), "transposed"),
        (BENCHMARK.format(loops=UNTUNED).replace("n:2::1,2,", "n:2::1,"), "not a product"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(text: str, message: str) -> None:
    with pytest.raises(MalformedError, match=f"^file.*{message}"):
        parse_benchmark(text, "file")


def test_a_benchmark_that_is_not_there_is_one_of_a_dataset() -> None:
    with pytest.raises(UsageError, match="unknown dataset 'nowhere'"):
        find_problems("nowhere/mm8_16_32.txt")
