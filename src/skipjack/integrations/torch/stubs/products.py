"""PyTorch's own matrix products with something added, called past the dispatcher.

Those without are functions of C++ (`rows`), whose errors keep their types. These take numbers that
have a class of their own in C++.
"""

from __future__ import annotations

PRODUCTS = {"addmm_out": 2, "baddbmm_out": 3}
"""Rank of the matrices."""
_GPU_INDEX = [
    "  %where = load ptr, ptr %marks, align 8",
    "  %at_second = getelementptr i64, ptr %where, i64 -1",
    "  %second = load i64, ptr %at_second, align 8",
    "  %index = trunc i64 %second to i32",
]
"""The second word stands before those of the first argument."""


def product_text(name: str, function: str, rank: int, device_type: int) -> str:
    """A product writes into an output that is made here, where the first factor is."""
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
    """The output's sizes and strides from those of the factors: contiguous, as PyTorch has it."""
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
