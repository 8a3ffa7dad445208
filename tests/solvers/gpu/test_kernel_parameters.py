"""What a kernel takes is counted, so that a launch never gives it less."""

import pytest

from skipjack.gpu import Argument, GpuBuildError
from skipjack.solvers.gpu.triton.compiled_code import (
    count_in_amdgcn,
    count_in_ptx,
    hidden_pointers,
    parameter_count,
)

PTX = """.visible .entry mm(
\t.param .align 64 .b8 mm_param_0[128],
\t.param .u32 mm_param_1,
\t.param .u64 .ptr .global .align 1 mm_param_2
)
{
\tld.param.u32 %r1, [mm_param_1];
}
"""
AMDGCN = """amdhsa.kernels:
  - .args:
      - .address_space:  global
        .value_kind:     global_buffer
      - .offset:         8
        .value_kind:     by_value
      - .offset:         16
        .value_kind:     hidden_block_count_x
"""
ARGUMENTS = (Argument("*fp16"), Argument("i32"))


def test_parameters_are_counted_in_the_head_of_the_kernel() -> None:
    assert count_in_ptx(PTX) == 3
    assert count_in_amdgcn(AMDGCN) == 2


@pytest.mark.parametrize(
    ("type_", "with_engine", "without"),
    [
        ("*fp16", 1, 1),
        ("i64", 1, 1),
        ("tensordesc<fp16[64]>", 3, 6),
        ("tensordesc<fp16[128, 64]>", 5, 10),
        ("tensordesc<bf16[1, 128, 64]>", 7, 14),
    ],
)
def test_a_descriptor_is_several_parameters(type_: str, with_engine: int, without: int) -> None:
    argument = Argument(type_)
    assert parameter_count(argument, copy_engine=True) == with_engine
    assert parameter_count(argument, copy_engine=False) == without


@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_what_is_left_over_is_hidden(hidden: int) -> None:
    assert hidden_pointers(ARGUMENTS, 2 + hidden, copy_engine=False, kernel="k") == hidden


@pytest.mark.parametrize("counted", [1, 5])
def test_parameters_that_do_not_fit_the_arguments_are_refused(counted: int) -> None:
    with pytest.raises(GpuBuildError, match=f"kernel k: it takes {counted} parameters"):
        hidden_pointers(ARGUMENTS, counted, copy_engine=False, kernel="k")
