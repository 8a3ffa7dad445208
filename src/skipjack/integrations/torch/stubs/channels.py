"""Small kernels of the hook: they add a bias to each channel, or sum each channel.

An array has the shape ``[outer, channels, inner]``. They take slots like other kernels: the array,
the vector of channels, the three sizes, and the number of tasks. Sums are in double precision.
"""

from __future__ import annotations

import re

CHANNEL_DTYPES = ("f32", "f64")

_KERNEL = """
define void @NAME_DT(ptr %slots) nounwind uwtable {
entry:
  %at_tasks = getelementptr i64, ptr %slots, i64 5
  %tasks = load i64, ptr %at_tasks, align 8
  %alone = icmp ule i64 %tasks, 1
  br i1 %alone, label %one, label %several
one:
  call void @NAME_DT_task(ptr %slots, i64 0, i64 1)
  ret void
several:
  call void @parallel(ptr @NAME_DT_task, ptr %slots, i64 %tasks)
  ret void
}

define internal void @NAME_DT_task(ptr %slots, i64 %task, i64 %tasks) nounwind {
entry:
  %array = load ptr, ptr %slots, align 8
  %at_vector = getelementptr ptr, ptr %slots, i64 1
  %vector = load ptr, ptr %at_vector, align 8
  %at_outer = getelementptr i64, ptr %slots, i64 2
  %outer = load i64, ptr %at_outer, align 8
  %at_channels = getelementptr i64, ptr %slots, i64 3
  %channels = load i64, ptr %at_channels, align 8
  %at_inner = getelementptr i64, ptr %slots, i64 4
  %inner = load i64, ptr %at_inner, align 8
TOTAL
  %first = mul i64 %total, %task
  %begin = udiv i64 %first, %tasks
  %task_next = add i64 %task, 1
  %last = mul i64 %total, %task_next
  %end = udiv i64 %last, %tasks
  br label %outer_loop
BODY
done:
  ret void
}
"""

_ADD_ROWS = """
outer_loop:
  %row = phi i64 [ %begin, %entry ], [ %row_next, %row_done ]
  %more = icmp ult i64 %row, %end
  br i1 %more, label %row_begin, label %done
row_begin:
  %row_next = add i64 %row, 1
  %channel = urem i64 %row, %channels
  %at_bias = getelementptr TYPE, ptr %vector, i64 %channel
  %bias = load TYPE, ptr %at_bias, align SIZE
  %bias_one = insertelement <16 x TYPE> poison, TYPE %bias, i64 0
  %biases = shufflevector <16 x TYPE> %bias_one, <16 x TYPE> poison, <16 x i32> zeroinitializer
  %offset = mul i64 %row, %inner
  %base = getelementptr TYPE, ptr %array, i64 %offset
  %rest = and i64 %inner, 15
  %whole = sub i64 %inner, %rest
  br label %vectors
vectors:
  %i = phi i64 [ 0, %row_begin ], [ %i_next, %vectors_body ]
  %i_more = icmp ult i64 %i, %whole
  br i1 %i_more, label %vectors_body, label %tail
vectors_body:
  %at = getelementptr TYPE, ptr %base, i64 %i
  %x = load <16 x TYPE>, ptr %at, align SIZE
  %y = fadd <16 x TYPE> %x, %biases
  store <16 x TYPE> %y, ptr %at, align SIZE
  %i_next = add i64 %i, 16
  br label %vectors
tail:
  %j = phi i64 [ %whole, %vectors ], [ %j_next, %tail_body ]
  %j_more = icmp ult i64 %j, %inner
  br i1 %j_more, label %tail_body, label %row_done
tail_body:
  %at_j = getelementptr TYPE, ptr %base, i64 %j
  %x_j = load TYPE, ptr %at_j, align SIZE
  %y_j = fadd TYPE %x_j, %bias
  store TYPE %y_j, ptr %at_j, align SIZE
  %j_next = add i64 %j, 1
  br label %tail
row_done:
  br label %outer_loop
"""

_ADD_COLUMNS = """
outer_loop:
  %row = phi i64 [ %begin, %entry ], [ %row_next, %row_done ]
  %more = icmp ult i64 %row, %end
  br i1 %more, label %row_begin, label %done
row_begin:
  %row_next = add i64 %row, 1
  %offset = mul i64 %row, %channels
  %base = getelementptr TYPE, ptr %array, i64 %offset
  %rest = and i64 %channels, 15
  %whole = sub i64 %channels, %rest
  br label %vectors
vectors:
  %i = phi i64 [ 0, %row_begin ], [ %i_next, %vectors_body ]
  %i_more = icmp ult i64 %i, %whole
  br i1 %i_more, label %vectors_body, label %tail
vectors_body:
  %at = getelementptr TYPE, ptr %base, i64 %i
  %x = load <16 x TYPE>, ptr %at, align SIZE
  %at_b = getelementptr TYPE, ptr %vector, i64 %i
  %b = load <16 x TYPE>, ptr %at_b, align SIZE
  %y = fadd <16 x TYPE> %x, %b
  store <16 x TYPE> %y, ptr %at, align SIZE
  %i_next = add i64 %i, 16
  br label %vectors
tail:
  %j = phi i64 [ %whole, %vectors ], [ %j_next, %tail_body ]
  %j_more = icmp ult i64 %j, %channels
  br i1 %j_more, label %tail_body, label %row_done
tail_body:
  %at_j = getelementptr TYPE, ptr %base, i64 %j
  %x_j = load TYPE, ptr %at_j, align SIZE
  %at_bj = getelementptr TYPE, ptr %vector, i64 %j
  %b_j = load TYPE, ptr %at_bj, align SIZE
  %y_j = fadd TYPE %x_j, %b_j
  store TYPE %y_j, ptr %at_j, align SIZE
  %j_next = add i64 %j, 1
  br label %tail
row_done:
  br label %outer_loop
"""

_SUM_ROWS = """
outer_loop:
  %channel = phi i64 [ %begin, %entry ], [ %channel_next, %channel_done ]
  %more = icmp ult i64 %channel, %end
  br i1 %more, label %channel_begin, label %done
channel_begin:
  %channel_next = add i64 %channel, 1
  %rest = and i64 %inner, 15
  %whole = sub i64 %inner, %rest
  br label %images
images:
  %n = phi i64 [ 0, %channel_begin ], [ %n_next, %image_done ]
  %sum = phi double [ 0.0, %channel_begin ], [ %tail_sum, %image_done ]
  %n_more = icmp ult i64 %n, %outer
  br i1 %n_more, label %image, label %channel_done
image:
  %n_next = add i64 %n, 1
  %before = mul i64 %n, %channels
  %row = add i64 %before, %channel
  %offset = mul i64 %row, %inner
  %base = getelementptr TYPE, ptr %array, i64 %offset
  br label %vectors
vectors:
  %i = phi i64 [ 0, %image ], [ %i_next, %vectors_body ]
  %acc0 = phi <8 x double> [ zeroinitializer, %image ], [ %acc0_next, %vectors_body ]
  %acc1 = phi <8 x double> [ zeroinitializer, %image ], [ %acc1_next, %vectors_body ]
  %i_more = icmp ult i64 %i, %whole
  br i1 %i_more, label %vectors_body, label %joined
vectors_body:
  %at0 = getelementptr TYPE, ptr %base, i64 %i
  %at1 = getelementptr TYPE, ptr %at0, i64 8
  %x0 = load <8 x TYPE>, ptr %at0, align SIZE
  %x1 = load <8 x TYPE>, ptr %at1, align SIZE
  %d0 = WIDER8 %x0
  %d1 = WIDER8 %x1
  %acc0_next = fadd <8 x double> %acc0, %d0
  %acc1_next = fadd <8 x double> %acc1, %d1
  %i_next = add i64 %i, 16
  br label %vectors
joined:
  %acc = fadd <8 x double> %acc0, %acc1
  %joined_sum = call reassoc double @llvm.vector.reduce.fadd.v8f64(double %sum, <8 x double> %acc)
  br label %tail
tail:
  %j = phi i64 [ %whole, %joined ], [ %j_next, %tail_body ]
  %tail_sum = phi double [ %joined_sum, %joined ], [ %sum_next, %tail_body ]
  %j_more = icmp ult i64 %j, %inner
  br i1 %j_more, label %tail_body, label %image_done
tail_body:
  %at_j = getelementptr TYPE, ptr %base, i64 %j
  %x_j = load TYPE, ptr %at_j, align SIZE
  %d_j = WIDER1 %x_j
  %sum_next = fadd double %tail_sum, %d_j
  %j_next = add i64 %j, 1
  br label %tail
image_done:
  br label %images
channel_done:
  %to = getelementptr TYPE, ptr %vector, i64 %channel
  %given = NARROWER1 %sum
  store TYPE %given, ptr %to, align SIZE
  br label %outer_loop
"""

_SUM_COLUMNS = """
outer_loop:
  %block = phi i64 [ %begin, %entry ], [ %block_next, %block_done ]
  %more = icmp ult i64 %block, %end
  br i1 %more, label %block_begin, label %done
block_begin:
  %block_next = add i64 %block, 1
  %channel = shl i64 %block, 4
  %left = sub i64 %channels, %channel
  %full = icmp uge i64 %left, 16
  %to0 = getelementptr TYPE, ptr %vector, i64 %channel
  %base = getelementptr TYPE, ptr %array, i64 %channel
  br i1 %full, label %wide, label %narrow
wide:
  %r = phi i64 [ 0, %block_begin ], [ %r_next, %wide_body ]
  %acc0 = phi <8 x double> [ zeroinitializer, %block_begin ], [ %acc0_next, %wide_body ]
  %acc1 = phi <8 x double> [ zeroinitializer, %block_begin ], [ %acc1_next, %wide_body ]
  %r_more = icmp ult i64 %r, %outer
  br i1 %r_more, label %wide_body, label %wide_done
wide_body:
  %offset = mul i64 %r, %channels
  %at0 = getelementptr TYPE, ptr %base, i64 %offset
  %at1 = getelementptr TYPE, ptr %at0, i64 8
  %x0 = load <8 x TYPE>, ptr %at0, align SIZE
  %x1 = load <8 x TYPE>, ptr %at1, align SIZE
  %d0 = WIDER8 %x0
  %d1 = WIDER8 %x1
  %acc0_next = fadd <8 x double> %acc0, %d0
  %acc1_next = fadd <8 x double> %acc1, %d1
  %r_next = add i64 %r, 1
  br label %wide
wide_done:
  %given0 = NARROWER8 %acc0
  %given1 = NARROWER8 %acc1
  %to1 = getelementptr TYPE, ptr %to0, i64 8
  store <8 x TYPE> %given0, ptr %to0, align SIZE
  store <8 x TYPE> %given1, ptr %to1, align SIZE
  br label %block_done
narrow:
  %j = phi i64 [ 0, %block_begin ], [ %j_next, %column_done ]
  %j_more = icmp ult i64 %j, %left
  br i1 %j_more, label %column_begin, label %block_done
column_begin:
  %j_next = add i64 %j, 1
  %column = getelementptr TYPE, ptr %base, i64 %j
  br label %column_loop
column_loop:
  %q = phi i64 [ 0, %column_begin ], [ %q_next, %column_body ]
  %sum = phi double [ 0.0, %column_begin ], [ %sum_next, %column_body ]
  %q_more = icmp ult i64 %q, %outer
  br i1 %q_more, label %column_body, label %column_done
column_body:
  %q_offset = mul i64 %q, %channels
  %at_q = getelementptr TYPE, ptr %column, i64 %q_offset
  %x_q = load TYPE, ptr %at_q, align SIZE
  %d_q = WIDER1 %x_q
  %sum_next = fadd double %sum, %d_q
  %q_next = add i64 %q, 1
  br label %column_loop
column_done:
  %to_j = getelementptr TYPE, ptr %to0, i64 %j
  %given_j = NARROWER1 %sum
  store TYPE %given_j, ptr %to_j, align SIZE
  br label %narrow
block_done:
  br label %outer_loop
"""

_TOTALS = {
    "add_rows": "  %total = mul i64 %outer, %channels",
    "add_columns": "  %total = add i64 %outer, 0",
    "sum_rows": "  %total = add i64 %channels, 0",
    "sum_columns": "  %up = add i64 %channels, 15\n  %total = lshr i64 %up, 4",
}
_BODIES = {
    "add_rows": _ADD_ROWS,
    "add_columns": _ADD_COLUMNS,
    "sum_rows": _SUM_ROWS,
    "sum_columns": _SUM_COLUMNS,
}
CHANNEL_KERNELS = tuple(f"{name}_{dtype}" for name in _BODIES for dtype in CHANNEL_DTYPES)
"""Rows if there is an inner size, columns if there is none."""


def channel_text() -> str:
    """The text of all kernels, for a module with ``parallel``."""
    texts = ["declare double @llvm.vector.reduce.fadd.v8f64(double, <8 x double>)"]
    for name, body in _BODIES.items():
        text = _KERNEL.replace("TOTAL", _TOTALS[name]).replace("BODY", body)
        for dtype in CHANNEL_DTYPES:
            texts.append(_typed(text.replace("NAME_DT", f"{name}_{dtype}"), dtype))
    return "\n".join(texts)


def _typed(text: str, dtype: str) -> str:
    """The text for one dtype."""
    kind, size = ("float", "4") if dtype == "f32" else ("double", "8")
    text = re.sub(r"(WIDER|NARROWER)(1|8) (%\w+)", lambda found: _converted(found, kind), text)
    return text.replace("TYPE", kind).replace("SIZE", size)


def _converted(found: re.Match[str], kind: str) -> str:
    """A conversion to doubles or back; doubles are unchanged."""
    way, lanes, value = found.groups()
    own, wide = (one if lanes == "1" else f"<8 x {one}>" for one in (kind, "double"))
    before, after = (own, wide) if way == "WIDER" else (wide, own)
    verb = "bitcast" if own == wide else "fpext" if way == "WIDER" else "fptrunc"
    return f"{verb} {before} {value} to {after}"
