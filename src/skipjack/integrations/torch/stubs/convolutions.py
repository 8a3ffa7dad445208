"""PyTorch's own convolutions and their gradients, called past the dispatcher."""

from __future__ import annotations

from skipjack.integrations.torch.stubs.layout import MOST_ITEMS

FORWARD, BACKWARD = "convolution", "convolution_backward"
_HEAD = "(ptr %stack, ptr %marks, ptr %results"


def forward_text(name: str, function: str) -> str:
    """The lists are among the words already."""
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
    """All gradients that are asked for, or (``rest_``) those of some bits alone."""
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
    """Arguments as they are on the stack."""
    lines = []
    for place in places:
        lines += [
            f"  %at_s{place} = getelementptr {kind}, ptr %stack, i64 {place}",
            f"  %s{place} = load {kind}, ptr %at_s{place}, align 8",
        ]
    return lines


def _list(place: int) -> tuple[list[str], str]:
    """A list that has been written down, and how it is passed."""
    lines = [
        f"  %at_mark{place} = getelementptr ptr, ptr %marks, i64 {place}",
        f"  %mark{place} = load ptr, ptr %at_mark{place}, align 8",
        f"  %all{place} = load i64, ptr %mark{place}, align 8",
        # A longer one is an error in any case; it must not be read past its end.
        f"  %short{place} = icmp sle i64 %all{place}, {MOST_ITEMS}",
        f"  %count{place} = select i1 %short{place}, i64 %all{place}, i64 0",
        f"  %first{place} = getelementptr i64, ptr %mark{place}, i64 1",
    ]
    return lines, f"ptr %first{place}, i64 %count{place}"


def _masked(place: int) -> list[str]:
    """Whether PyTorch is to compute a gradient."""
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
    """A result; one that is not PyTorch's here is let go."""
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
