"""PyTorch's own products, softmax, normalizations and gradients, called without the dispatcher.

The C interface has no functions for most of them, and the dispatcher's functions with output
arguments call the hooked operation. So this calls C++ functions of the namespace ``at::cpu``. Their
mangled names contain the types of all arguments: a release with other types has no function of that
name, and the operation is not hooked there. The code relies on these layouts: a tensor is one
pointer, an optional tensor has a flag after it, a tuple of tensors has the last one first.
"""

from __future__ import annotations

from skipjack.integrations.torch.stubs.call_words import dropped
from skipjack.integrations.torch.stubs.signatures import ArgumentKind, Signature

CPP_SYMBOLS = ("__gxx_personality_v0", "_Unwind_Resume")
"""Symbols for code through which exceptions pass."""
ROWS_TEXT = """
declare i32 @__gxx_personality_v0(...)

define internal void @set_optional(ptr %to, i64 %value) nounwind {
entry:
  %at_flag = getelementptr i64, ptr %to, i64 1
  %none = icmp eq i64 %value, 0
  br i1 %none, label %absent, label %present
absent:
  store i64 0, ptr %to, align 8
  store i64 0, ptr %at_flag, align 8
  ret void
present:
  %where = inttoptr i64 %value to ptr
  %handle = load ptr, ptr %where, align 8
  %tensor = load i64, ptr %handle, align 8
  store i64 %tensor, ptr %to, align 8
  store i64 1, ptr %at_flag, align 8
  ret void
}
"""


def row_text(name: str, signature: Signature) -> str:
    """A function that converts arguments to C++, and the resulting tensors to handles.

    C++ exceptions pass through after the arguments are freed: they are PyTorch's own errors.
    """
    lines = [
        f"define internal i32 @{name}(ptr %stack, ptr %marks, ptr %results) uwtable",
        "    personality ptr @__gxx_personality_v0 {",
        "entry:",
        f"  %made = alloca [{signature.results} x i64], align 8",
    ]
    passed = [f"ptr sret([{signature.results} x i64]) align 8 %made"]
    for place, kind in enumerate(signature.arguments):
        lines += [
            f"  %a{place} = getelementptr i64, ptr %stack, i64 {place}",
            f"  %value{place} = load i64, ptr %a{place}, align 8",
        ]
        code, values = _argument(place, kind)
        lines += code
        passed += values
    lines += [
        f"  invoke void {{{signature.function}}}({', '.join(passed)})",
        "    to label %computed unwind label %thrown",
        "thrown:",
        "  %error = landingpad { ptr, i32 } cleanup",
        *dropped(signature),
        "  resume { ptr, i32 } %error",
        "computed:",
    ]
    for result in range(signature.results):
        lines += _result(result, signature.results)
    lines += ["  ret i32 0", "}", ""]
    return "\n".join(lines)


def _argument(place: int, kind: ArgumentKind) -> tuple[list[str], list[str]]:
    """Code that converts an argument, and the values to pass."""
    value, made = f"%value{place}", f"%v{place}"
    match kind:
        case ArgumentKind.TENSOR:
            return [f"  {made} = inttoptr i64 {value} to ptr"], [f"ptr {made}"]
        case ArgumentKind.OPTIONAL_TENSOR:
            code = [
                f"  {made} = alloca [2 x i64], align 8",
                f"  call void @set_optional(ptr {made}, i64 {value})",
            ]
            return code, [f"ptr {made}"]
        case ArgumentKind.INT:
            return [], [f"i64 {value}"]
        case ArgumentKind.BOOL:
            return [f"  {made} = trunc i64 {value} to i1"], [f"i1 zeroext {made}"]
        case ArgumentKind.DTYPE:
            return [f"  {made} = trunc i64 {value} to i8"], [f"i8 signext {made}"]
        case ArgumentKind.DOUBLE | ArgumentKind.MOMENTUM:
            return [f"  {made} = bitcast i64 {value} to double"], [f"double {made}"]
        case ArgumentKind.INTS:
            return _items(place), [f"ptr %first{place}", f"i64 %size{place}"]
        case ArgumentKind.THREE_BOOLS:
            return [*_items(place), *_bools(place)], [f"i24 {made}"]
    raise ValueError(f"{kind} has no C++ type")


def _items(place: int) -> list[str]:
    """Load the items of a list from the words."""
    return [
        f"  %m{place} = getelementptr ptr, ptr %marks, i64 {place}",
        f"  %words{place} = load ptr, ptr %m{place}, align 8",
        f"  %size{place} = load i64, ptr %words{place}, align 8",
        f"  %first{place} = getelementptr i64, ptr %words{place}, i64 1",
    ]


def _bools(place: int) -> list[str]:
    """Three bytes, passed as one number."""
    lines, whole = [], "0"
    for item in range(3):
        name = f"{place}_{item}"
        lines += [
            f"  %at{name} = getelementptr i64, ptr %first{place}, i64 {item}",
            f"  %item{name} = load i64, ptr %at{name}, align 8",
            f"  %low{name} = and i64 %item{name}, 1",
            f"  %byte{name} = shl i64 %low{name}, {8 * item}",
            f"  %whole{name} = or i64 {whole}, %byte{name}",
        ]
        whole = f"%whole{name}"
    return [*lines, f"  %v{place} = trunc i64 {whole} to i24"]


def _result(result: int, results: int) -> list[str]:
    """Move a resulting tensor into a new handle."""
    return [
        f"  %to{result} = getelementptr ptr, ptr %results, i64 {result}",
        f"  %e{result} = call i32 {{aoti_torch_new_uninitialized_tensor}}(ptr %to{result})",
        f"  %handle{result} = load ptr, ptr %to{result}, align 8",
        f"  %from{result} = getelementptr i64, ptr %made, i64 {results - 1 - result}",
        f"  %tensor{result} = load i64, ptr %from{result}, align 8",
        f"  store i64 %tensor{result}, ptr %handle{result}, align 8",
    ]
