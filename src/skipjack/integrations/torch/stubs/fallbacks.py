"""PyTorch's own kernel of each operation, called past the dispatcher for calls that ours do not
compute.
"""

from __future__ import annotations

from skipjack.integrations.torch.stubs.cpp_fallbacks import row_text
from skipjack.integrations.torch.stubs.signatures import Signature, TorchBackend
from skipjack.integrations.torch.stubs.table import MOST_ITEMS

# PyTorch's own convolutions and their gradients, called without the dispatcher.

FORWARD, BACKWARD = "convolution", "convolution_backward"
_HEAD = "(ptr %stack, ptr %marks, ptr %results"


def forward_text(name: str, function: str) -> str:
    """A function that calls PyTorch's convolution; its lists are in the words already."""
    lists = [_list(place) for place in (3, 4, 5, 7)]
    stride, padding, dilation, more = (passed for _, passed in lists)
    lines = [
        f"define internal i32 @{name}{_HEAD}) nounwind uwtable {{",
        *_loaded("ptr", 0, 1, 2),
        *_loaded("i64", 6, 8),
        "  %transposed = trunc i64 %s6 to i32",
        *(line for lines, _ in lists for line in lines),
        f"  %e = call i32 {{{function}}}(ptr %s0, ptr %s1, ptr %s2, {stride}, "
        f"{padding}, {dilation}, i32 %transposed, {more}, i64 %s8, ptr %results)",
        "  ret i32 %e",
        "}",
        "",
    ]
    return "\n".join(lines)


def backward_text(name: str, function: str) -> str:
    """Functions for all requested gradients, and (``rest_``) for those of some bits."""
    lists = [_list(place) for place in (4, 5, 6, 8)]
    stride, padding, dilation, more = (passed for _, passed in lists)
    lines = [
        f"define internal i32 @{name}{_HEAD}) nounwind uwtable {{",
        f"  %e = call i32 @rest_{name}{_HEAD}, i64 7)",
        "  ret i32 %e",
        "}",
        "",
        f"define internal i32 @rest_{name}{_HEAD}, i64 %bits) nounwind uwtable {{",
        "entry:",
        "  %mask = alloca [3 x i32], align 4",
        "  %made = alloca [3 x ptr], align 8",
        "  %sizes = alloca ptr, align 8",
        *_loaded("ptr", 0, 1, 2),
        *_loaded("i64", 7, 9),
        "  %transposed = trunc i64 %s7 to i32",
        *(line for lines, _ in lists for line in lines),
        *_list(3)[0],
        "  store ptr %first3, ptr %sizes, align 8",
        "  %biased = icmp sge i64 %count3, 0",
        "  %bias_sizes = select i1 %biased, ptr %sizes, ptr null",
        "  %bias_count = select i1 %biased, i64 %count3, i64 0",
        *_list(10)[0],
        *(line for place in range(3) for line in _masked(place)),
        f"  %e = call i32 {{{function}}}(ptr %s0, ptr %s1, ptr %s2, "
        f"ptr %bias_sizes, i64 %bias_count, {stride}, {padding}, {dilation}, i32 %transposed, "
        f"{more}, i64 %s9, ptr %mask, i64 3, ptr %made0, ptr %made1, ptr %made2)",
        "  %failed = icmp ne i32 %e, 0",
        "  br i1 %failed, label %done, label %place0",
        *(line for place in range(3) for line in _given(place)),
        "place3:",
        "  br label %done",
        "done:",
        "  ret i32 %e",
        "}",
        "",
    ]
    return "\n".join(lines)


def _loaded(kind: str, *places: int) -> list[str]:
    """Load arguments from the stack."""
    lines = []
    for place in places:
        lines += [
            f"  %at_s{place} = getelementptr {kind}, ptr %stack, i64 {place}",
            f"  %s{place} = load {kind}, ptr %at_s{place}, align 8",
        ]
    return lines


def _list(place: int) -> tuple[list[str], str]:
    """Code that loads a list from the words, and how it is passed."""
    lines = [
        f"  %at_mark{place} = getelementptr ptr, ptr %marks, i64 {place}",
        f"  %mark{place} = load ptr, ptr %at_mark{place}, align 8",
        f"  %all{place} = load i64, ptr %mark{place}, align 8",
        # A longer list is an error anyway, and must not be read past its end.
        f"  %short{place} = icmp sle i64 %all{place}, {MOST_ITEMS}",
        f"  %count{place} = select i1 %short{place}, i64 %all{place}, i64 0",
        f"  %first{place} = getelementptr i64, ptr %mark{place}, i64 1",
    ]
    return lines, f"ptr %first{place}, i64 %count{place}"


def _masked(place: int) -> list[str]:
    """Set whether PyTorch computes a gradient."""
    return [
        f"  %at_asked{place} = getelementptr i64, ptr %first10, i64 {place}",
        f"  %asked{place} = load i64, ptr %at_asked{place}, align 8",
        f"  %shifted{place} = lshr i64 %bits, {place}",
        f"  %bit{place} = and i64 %shifted{place}, 1",
        f"  %wanted{place} = and i64 %asked{place}, %bit{place}",
        f"  %wanted32_{place} = trunc i64 %wanted{place} to i32",
        f"  %to_mask{place} = getelementptr i32, ptr %mask, i64 {place}",
        f"  store i32 %wanted32_{place}, ptr %to_mask{place}, align 4",
        f"  %made{place} = getelementptr ptr, ptr %made, i64 {place}",
        f"  store ptr null, ptr %made{place}, align 8",
    ]


def _given(place: int) -> list[str]:
    """Store a result, or free it if it was not requested here."""
    return [
        f"place{place}:",
        f"  %result{place} = load i64, ptr %made{place}, align 8",
        f"  %is{place} = icmp ne i64 %bit{place}, 0",
        f"  br i1 %is{place}, label %give{place}, label %drop{place}",
        f"give{place}:",
        f"  %to{place} = getelementptr i64, ptr %results, i64 {place}",
        f"  store i64 %result{place}, ptr %to{place}, align 8",
        f"  br label %place{place + 1}",
        f"drop{place}:",
        f"  call void @drop_tensor(i64 %result{place})",
        f"  br label %place{place + 1}",
    ]


# PyTorch's own matrix products with an addend, called without the dispatcher.
#
# Those without an addend are C++ functions, whose errors keep their types. These take numbers
# that have a class of their own in C++.

PRODUCTS = {"addmm_out": 2, "baddbmm_out": 3}
"""Rank of the matrices."""
_GPU_INDEX = [
    "  %where = load ptr, ptr %marks, align 8",
    "  %at_second = getelementptr i64, ptr %where, i64 -1",
    "  %second = load i64, ptr %at_second, align 8",
    "  %index = trunc i64 %second to i32",
]
"""The second word precedes those of the first argument."""


def product_text(name: str, function: str, rank: int, device_type: int) -> str:
    """A function that allocates an output on the device of the first factor, and computes it."""
    lines = [
        f"define internal i32 @{name}(ptr %stack, ptr %marks, ptr %results) nounwind uwtable {{",
        "entry:",
        f"  %sizes = alloca [{rank} x i64], align 8",
        f"  %strides = alloca [{rank} x i64], align 8",
        "  %out_ = alloca ptr, align 8",
        "  %at_a = getelementptr ptr, ptr %marks, i64 1",
        "  %a_words = load ptr, ptr %at_a, align 8",
        "  %at_b = getelementptr ptr, ptr %marks, i64 2",
        "  %b_words = load ptr, ptr %at_b, align 8",
        "  %a_rank = load i64, ptr %a_words, align 8",
        "  %b_rank = load i64, ptr %b_words, align 8",
        f"  %a_fits = icmp eq i64 %a_rank, {rank}",
        f"  %b_fits = icmp eq i64 %b_rank, {rank}",
        "  %fits = and i1 %a_fits, %b_fits",
        "  br i1 %fits, label %look, label %odd",
        "odd:",
        "  br label %make",
        "look:",
        *_sized(rank),
        "  br label %make",
        "make:",
        f"  %rank = phi i64 [ 0, %odd ], [ {rank}, %look ]",
        "  %at_dtype = getelementptr i64, ptr %a_words, i64 1",
        "  %dtype64 = load i64, ptr %at_dtype, align 8",
        "  %dtype = trunc i64 %dtype64 to i32",
        *(_GPU_INDEX if device_type else ["  %index = add i32 0, 0"]),
        "  %e0 = call i32 {aoti_torch_empty_strided}(i64 %rank, ptr %sizes, ptr %strides, "
        f"i32 %dtype, i32 {device_type}, i32 %index, ptr %out_)",
        "  %made = icmp eq i32 %e0, 0",
        "  br i1 %made, label %compute, label %refused",
        "refused:",
        "  ret i32 %e0",
        "compute:",
        "  %out = load ptr, ptr %out_, align 8",
        "  %added = load ptr, ptr %stack, align 8",
        "  %s_a = getelementptr ptr, ptr %stack, i64 1",
        "  %a = load ptr, ptr %s_a, align 8",
        "  %s_b = getelementptr ptr, ptr %stack, i64 2",
        "  %b = load ptr, ptr %s_b, align 8",
        f"  %e1 = call i32 {{{function}}}(ptr %out, ptr %added, ptr %a, ptr %b, double 1.0, "
        "double 1.0)",
        "  %good = icmp eq i32 %e1, 0",
        "  br i1 %good, label %give, label %drop",
        "drop:",
        "  %dropped = call i32 {aoti_torch_delete_tensor_object}(ptr %out)",
        "  ret i32 %e1",
        "give:",
        "  store ptr %out, ptr %results, align 8",
        "  ret i32 0",
        "}",
        "",
    ]
    return "\n".join(lines)


def _sized(rank: int) -> list[str]:
    """Code for the output's sizes and strides: contiguous, as in PyTorch."""
    lines = []
    if rank == 3:
        lines += [
            "  %at_batch = getelementptr i64, ptr %a_words, i64 2",
            "  %batch = load i64, ptr %at_batch, align 8",
            "  store i64 %batch, ptr %sizes, align 8",
        ]
    lines += [
        f"  %at_rows = getelementptr i64, ptr %a_words, i64 {2 + rank - 2}",
        "  %rows = load i64, ptr %at_rows, align 8",
        f"  %at_columns = getelementptr i64, ptr %b_words, i64 {2 + rank - 1}",
        "  %columns = load i64, ptr %at_columns, align 8",
        f"  %to_rows = getelementptr i64, ptr %sizes, i64 {rank - 2}",
        "  store i64 %rows, ptr %to_rows, align 8",
        f"  %to_columns = getelementptr i64, ptr %sizes, i64 {rank - 1}",
        "  store i64 %columns, ptr %to_columns, align 8",
        f"  %last = getelementptr i64, ptr %strides, i64 {rank - 1}",
        "  store i64 1, ptr %last, align 8",
        f"  %before = getelementptr i64, ptr %strides, i64 {rank - 2}",
        "  %width = call i64 @llvm.umax.i64(i64 %columns, i64 1)",
        "  store i64 %width, ptr %before, align 8",
    ]
    if rank == 3:
        lines += [
            "  %height = call i64 @llvm.umax.i64(i64 %rows, i64 1)",
            "  %area = mul i64 %height, %width",
            "  store i64 %area, ptr %strides, align 8",
        ]
    return lines


# PyTorch's own kernel of each operation, for calls that our kernels do not compute.

DIVISIBLE = (BACKWARD,)
"""Fallbacks with a function ``rest_torch_NUMBER(stack, marks, results, bits)`` for some results."""


def fallback_text(number: int, signature: Signature) -> str:
    """A function ``code torch_NUMBER(stack, marks, results)``, which returns 0 on success.

    `marks` has the address of each argument's words. It writes handles of tensors to `results`.
    """
    name, function = f"torch_{number}", signature.fallback
    if function == FORWARD:
        return forward_text(name, signature.function)
    if function == BACKWARD:
        return backward_text(name, signature.function)
    if signature.is_cpp:
        return row_text(name, signature)
    device_type = int(signature.backend is TorchBackend.CUDA)
    return product_text(name, signature.function, PRODUCTS[function], device_type)
