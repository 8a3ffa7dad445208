"""A call encoded as words: its arguments, and PyTorch's switches that change its result."""

from __future__ import annotations

from skipjack.integrations.torch.stubs.signatures import ArgumentKind, Signature, TorchBackend

# Encoding a call as words, and freeing its arguments.

WORDS_TEXT = """
define internal ptr @put_tensor(ptr %at, i64 %value) nounwind uwtable {
entry:
  %handle = inttoptr i64 %value to ptr
  %dtype = alloca i32, align 4
  %sizes = alloca ptr, align 8
  %strides = alloca ptr, align 8
  %at_dtype = getelementptr i64, ptr %at, i64 1
  %e0 = call i32 {aoti_torch_get_dim}(ptr %handle, ptr %at)
  %e1 = call i32 {aoti_torch_get_dtype}(ptr %handle, ptr %dtype)
  %dtype32 = load i32, ptr %dtype, align 4
  %dtype64 = sext i32 %dtype32 to i64
  store i64 %dtype64, ptr %at_dtype, align 8
  %rank = load i64, ptr %at, align 8
  %first = getelementptr i64, ptr %at, i64 2
  %small = icmp ule i64 %rank, MOST_RANK
  br i1 %small, label %look, label %large
large:
  ret ptr %first
look:
  %e2 = call i32 {aoti_torch_get_sizes}(ptr %handle, ptr %sizes)
  %from_sizes = load ptr, ptr %sizes, align 8
  %second = getelementptr i64, ptr %first, i64 %rank
  %is_vector = icmp eq i64 %rank, 1
  br i1 %is_vector, label %vector, label %whole
vector:
  ; An undefined tensor has one dimension without elements. Reading its strides is an error, and
  ; errors take milliseconds.
  %length = load i64, ptr %from_sizes, align 8
  %is_nothing = icmp eq i64 %length, 0
  br i1 %is_nothing, label %nothing, label %whole
nothing:
  store i64 0, ptr %first, align 8
  store i64 1, ptr %second, align 8
  %after_nothing = getelementptr i64, ptr %at, i64 4
  ret ptr %after_nothing
whole:
  %e3 = call i32 {aoti_torch_get_strides}(ptr %handle, ptr %strides)
  %from_strides = load ptr, ptr %strides, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %whole ], [ %next, %body ]
  %more = icmp ult i64 %i, %rank
  br i1 %more, label %body, label %done
body:
  %at_size = getelementptr i64, ptr %from_sizes, i64 %i
  %size = load i64, ptr %at_size, align 8
  %to_size = getelementptr i64, ptr %first, i64 %i
  store i64 %size, ptr %to_size, align 8
  %at_stride = getelementptr i64, ptr %from_strides, i64 %i
  %stride = load i64, ptr %at_stride, align 8
  %to_stride = getelementptr i64, ptr %second, i64 %i
  store i64 %stride, ptr %to_stride, align 8
  %next = add i64 %i, 1
  br label %loop
done:
  %end = getelementptr i64, ptr %second, i64 %rank
  ret ptr %end
}

define internal ptr @put_optional(ptr %at, i64 %value, ptr %put) nounwind uwtable {
entry:
  %none = icmp eq i64 %value, 0
  br i1 %none, label %absent, label %present
absent:
  store i64 -1, ptr %at, align 8
  %end = getelementptr i64, ptr %at, i64 1
  ret ptr %end
present:
  %where = inttoptr i64 %value to ptr
  %inner = load i64, ptr %where, align 8
  %after = call ptr %put(ptr %at, i64 %inner)
  ret ptr %after
}

; An undefined tensor, as the bias of a convolution without bias, is encoded as none.
define internal ptr @put_optional_tensor(ptr %at, i64 %value) nounwind uwtable {
entry:
  %after = call ptr @put_optional(ptr %at, i64 %value, ptr @put_tensor)
  %rank = load i64, ptr %at, align 8
  %is_vector = icmp eq i64 %rank, 1
  br i1 %is_vector, label %vector, label %done
vector:
  %at_length = getelementptr i64, ptr %at, i64 2
  %length = load i64, ptr %at_length, align 8
  %is_empty = icmp eq i64 %length, 0
  br i1 %is_empty, label %ask, label %done
ask:
  %is_ = alloca i8, align 1
  store i8 1, ptr %is_, align 1
  %where = inttoptr i64 %value to ptr
  %inner = load ptr, ptr %where, align 8
  %e = call i32 {aoti_torch_is_defined}(ptr %inner, ptr %is_)
  %is = load i8, ptr %is_, align 1
  %defined = icmp ne i8 %is, 0
  br i1 %defined, label %done, label %absent
absent:
  store i64 -1, ptr %at, align 8
  %next = getelementptr i64, ptr %at, i64 1
  ret ptr %next
done:
  ret ptr %after
}

declare i64 @llvm.fptosi.sat.i64.f64(double)
declare double @llvm.fabs.f64(double)

; Batch norms that average over all batches have a new momentum in each call, which would fill the
; table. So all values with more than four decimals have the same word: not a number.
define internal ptr @put_momentum(ptr %at, i64 %value) nounwind uwtable {
entry:
  %number = bitcast i64 %value to double
  %scaled = fmul double %number, 1.0e+4
  %raised = fadd double %scaled, 0.5
  %whole = call i64 @llvm.fptosi.sat.i64.f64(double %raised)
  %near = sitofp i64 %whole to double
  %off = fsub double %scaled, %near
  %distance = call double @llvm.fabs.f64(double %off)
  %is_short = fcmp olt double %distance, 0x3E112E0BE826D695
  %word = select i1 %is_short, i64 %value, i64 9221120237041090560
  store i64 %word, ptr %at, align 8
  %after = getelementptr i64, ptr %at, i64 1
  ret ptr %after
}

define internal ptr @put_ints(ptr %at, i64 %value) nounwind uwtable {
entry:
  %list = inttoptr i64 %value to ptr
  %e0 = call i32 {torch_list_size}(ptr %list, ptr %at)
  %count = load i64, ptr %at, align 8
  %first = getelementptr i64, ptr %at, i64 1
  %small = icmp ule i64 %count, MOST_ITEMS
  br i1 %small, label %loop, label %large
large:
  ret ptr %first
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %to = getelementptr i64, ptr %first, i64 %i
  store i64 0, ptr %to, align 8
  %e1 = call i32 {torch_list_get_item}(ptr %list, i64 %i, ptr %to)
  %next = add i64 %i, 1
  br label %loop
done:
  %end = getelementptr i64, ptr %first, i64 %count
  ret ptr %end
}

define internal ptr @put_optional_ints(ptr %at, i64 %value) nounwind uwtable {
  %after = call ptr @put_optional(ptr %at, i64 %value, ptr @put_ints)
  ret ptr %after
}

define internal void @drop_tensor(i64 %value) nounwind uwtable {
  %handle = inttoptr i64 %value to ptr
  %e = call i32 {aoti_torch_delete_tensor_object}(ptr %handle)
  ret void
}

define internal void @drop_ints(i64 %value) nounwind uwtable {
  %handle = inttoptr i64 %value to ptr
  %e = call i32 {torch_delete_list}(ptr %handle)
  ret void
}

define internal void @drop_optional(i64 %value, ptr %drop) nounwind uwtable {
entry:
  %none = icmp eq i64 %value, 0
  br i1 %none, label %done, label %present
present:
  %where = inttoptr i64 %value to ptr
  %inner = load i64, ptr %where, align 8
  call void %drop(i64 %inner)
  call void {delete_value}(ptr %where)
  br label %done
done:
  ret void
}
"""


def dropped(signature: Signature) -> list[str]:
    """Code that frees the arguments, which the callee owns; they are ``%value0`` and so on."""
    lines = []
    for place, kind in enumerate(signature.arguments):
        value = f"i64 %value{place}"
        if kind is ArgumentKind.TENSOR:
            lines.append(f"  call void @drop_tensor({value})")
        elif kind in (ArgumentKind.INTS, ArgumentKind.THREE_BOOLS):
            lines.append(f"  call void @drop_ints({value})")
        elif kind is ArgumentKind.OPTIONAL_TENSOR:
            lines.append(f"  call void @drop_optional({value}, ptr @drop_tensor)")
        elif kind is ArgumentKind.OPTIONAL_INTS:
            lines.append(f"  call void @drop_optional({value}, ptr @drop_ints)")
    return lines


# PyTorch's options that affect the result of a call, as the second word of a call.
#
# On CPUs it is the number of threads, and in its upper half the precision of float32 products and
# convolutions; on GPUs it is the GPU's number. Before one of our kernels runs, the stub checks
# whether TorchScript is tracing, and on GPUs whether results must be deterministic. The options are
# read with C++ functions; if a release lacks one, the option counts as not set.

_ONEDNN = 2
_ONEDNN_OPERATIONS = {"convolution": 1, "convolution_backward": 1} | dict.fromkeys(
    ("mm", "bmm", "addmm", "baddbmm"), 3
)
"""Numbers of ``at::Float32Backend`` and ``at::Float32Op``."""
_PRECISION = "_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE"
SWITCHES_TEXT = """
define internal i64 @precision(i32 %operation) nounwind uwtable {
entry:
  %known = icmp ne ptr {_ZN2at13globalContextEv}, null
  %asked = icmp ne ptr {PRECISION}, null
  %may = and i1 %known, %asked
  br i1 %may, label %ask, label %no
ask:
  %context = call ptr {_ZN2at13globalContextEv}()
  %found = call i32 {PRECISION}(ptr %context, i32 ONEDNN, i32 %operation)
  %wide = zext i32 %found to i64
  %upper = shl i64 %wide, 32
  ret i64 %upper
no:
  ret i64 0
}

; Whether TorchScript traces this thread: it sees the calls inside PyTorch's convolution, not the
; convolution itself, and would treat the result of our kernel as a constant.
define internal i1 @is_traced() nounwind uwtable {
entry:
  %known = icmp ne ptr {_ZN5torch3jit6tracer15getTracingStateEv}, null
  br i1 %known, label %ask, label %no
ask:
  %shared = call ptr {_ZN5torch3jit6tracer15getTracingStateEv}()
  %state = load ptr, ptr %shared, align 8
  %is = icmp ne ptr %state, null
  ret i1 %is
no:
  ret i1 false
}

; Whether PyTorch must be deterministic: sums by atomic additions depend on their order.
define internal i1 @is_deterministic() nounwind uwtable {
entry:
  %known = icmp ne ptr {_ZN2at13globalContextEv}, null
  %asked = icmp ne ptr {_ZNK2at7Context23deterministicAlgorithmsEv}, null
  %may = and i1 %known, %asked
  br i1 %may, label %ask, label %no
ask:
  %context = call ptr {_ZN2at13globalContextEv}()
  %is = call zeroext i1 {_ZNK2at7Context23deterministicAlgorithmsEv}(ptr %context)
  ret i1 %is
no:
  ret i1 false
}
""".replace("{PRECISION}", f"{{{_PRECISION}}}").replace("ONEDNN", str(_ONEDNN))


def switches_text(signature: Signature) -> list[str]:
    """Code that sets ``%switches`` to the second word."""
    if signature.backend is TorchBackend.CUDA:
        return [
            "  %index = alloca i32, align 4",
            "  store i32 -1, ptr %index, align 4",
            "  %first_handle = load ptr, ptr %stack, align 8",
            "  %e = call i32 {aoti_torch_get_device_index}(ptr %first_handle, ptr %index)",
            "  %index32 = load i32, ptr %index, align 4",
            "  %switches = sext i32 %index32 to i64",
        ]
    operation = _ONEDNN_OPERATIONS.get(signature.name)
    precision = [f"  %upper = call i64 @precision(i32 {operation})"] if operation else []
    return [
        "  %threads = alloca i32, align 4",
        "  %e = call i32 {torch_get_num_threads}(ptr %threads)",
        "  %threads32 = load i32, ptr %threads, align 4",
        "  %threads64 = zext i32 %threads32 to i64",
        *precision,
        f"  %switches = or i64 %threads64, {'%upper' if operation else 0}",
    ]
