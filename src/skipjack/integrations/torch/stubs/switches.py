"""PyTorch's switches that change what a call computes, as the second word of a call.

On CPUs it is how many threads there are, and in its upper half how precise products and
convolutions of float32 have to be; on GPUs it is the GPU's number. Where a kernel of ours is about
to run it is asked whether TorchScript traces, and on GPUs whether results have to be deterministic.
C++ functions are asked: one that a release lacks counts as a switch that is not set.
"""

from __future__ import annotations

from skipjack.integrations.torch.signatures import Signature, TorchBackend

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

; Whether TorchScript records this thread: it sees what PyTorch's convolution calls, not the
; convolution itself, and would take the result of a kernel of ours for a constant.
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

; Whether PyTorch is to compute deterministically: sums by atomic additions depend on their order.
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
    """Code that has the second word in ``%switches``."""
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
