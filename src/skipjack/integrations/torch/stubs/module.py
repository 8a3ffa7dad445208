"""The native functions that PyTorch calls instead of its own kernels, as LLVM IR.

There is one function for each operation and backend. It encodes the call as *words* (the operation;
threads and options of PyTorch; for each tensor its rank, dtype, sizes and strides; other
arguments), finds the entry of these words in a table, and follows it: run our kernels, call
PyTorch's own kernel without the dispatcher, raise, or ask Python again. Words that are not in the
table lead to Python once; without an entry, PyTorch's own kernel runs. Exceptions in Python
meanwhile (Ctrl-C, or SIGTERM) are raised again in the main thread, after the call.

All data is laid out in plain memory by `skipjack.integrations.torch.stubs.table`:

=======  ==========================================================================================
state    table, its mask, closed, arena, arena's bytes, arena is busy, calls without an entry,
         Python's function for new words
entry    hash, kind, our calls, PyTorch's calls, plan, message, number of words, words
plan     outputs: number and records; places: number and records; steps: number and records;
         bytes of scratch memory; a bit for each result that PyTorch still computes; the device
         as its type times 256 plus its number
output   result, rank, sizes, strides, dtype (-1: the tensor is undefined), device's type and index
place    kind (0 argument, 1 optional one, 2 result, 3 arena, 4 modified optional argument),
         index, offset in bytes
step     kernel, number of slots, their values, number of bindings, bindings (slot, place); on a
         GPU the kernel is ``launch`` or ``fill``, whose first slot is the driver's error code
=======  ==========================================================================================

Kernels run on PyTorch's own threads: ``parallel`` here has the interface of
`skipjack.native.pool`. Their scratch memory is one arena; a call that finds it in use allocates a
tensor instead, and so does every call on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from skipjack.integrations.torch.stubs import table
from skipjack.integrations.torch.stubs.call_words import (
    SWITCHES_TEXT,
    WORDS_TEXT,
    dropped,
    switches_text,
)
from skipjack.integrations.torch.stubs.channels import CHANNEL_KERNELS, channel_text
from skipjack.integrations.torch.stubs.cpp_fallbacks import ROWS_TEXT
from skipjack.integrations.torch.stubs.entry_search import ENTRY_SEARCH_TEXT
from skipjack.integrations.torch.stubs.fallbacks import DIVISIBLE, fallback_text
from skipjack.integrations.torch.stubs.launches import (
    FILL,
    LAUNCH,
    LAUNCHES_TEXT,
    MOST_ARGUMENTS,
    MOST_DESCRIPTORS,
)
from skipjack.integrations.torch.stubs.plan_run import ARENA_TEXT, PLAN_RUN_TEXT
from skipjack.integrations.torch.stubs.signatures import (
    ONE_WORD,
    ArgumentKind,
    Signature,
    TorchBackend,
)

STUB_STEPS = (*CHANNEL_KERNELS, LAUNCH, FILL)
"""Functions of the stubs that can be steps of a plan."""


IMPORT_PREFIX = "skipjack_import_"
_IMPORT = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class StubModule:
    """The text of the stubs, and the symbols that it uses.

    It contains no addresses, so its machine code serves every process with the same PyTorch.
    """

    text: str
    names: tuple[str, ...]
    """The functions whose addresses the stubs need, and ``state``."""

    def imports(self, address_of: Callable[[str], int], state: int) -> dict[str, int]:
        """The addresses of the symbols; 0 for a missing function."""
        found = {name: address_of(name) for name in self.names if name != "state"} | {
            "state": state
        }
        return {f"{IMPORT_PREFIX}{name}": address for name, address in found.items()}


def stub_module(signatures: tuple[Signature, ...]) -> StubModule:
    """A module with a function ``hook_NUMBER`` for each operation, and ``insert``."""
    texts = [WORDS_TEXT, ENTRY_SEARCH_TEXT, ARENA_TEXT, PLAN_RUN_TEXT, ROWS_TEXT, channel_text()]
    texts += [LAUNCHES_TEXT, SWITCHES_TEXT]
    for number, signature in enumerate(signatures):
        texts += [fallback_text(number, signature), _hook(number, signature)]
    text = "\n".join(texts)
    for name in ("MOST_RANK", "MOST_ITEMS", "MOST_SLOTS", "MOST_PLACES", "MOST_WORDS"):
        text = text.replace(name, str(getattr(table, name)))
    text = text.replace("ENTRY_HEAD", str(table.ENTRY_HEAD))
    text = text.replace("MOST_ARGUMENTS", str(MOST_ARGUMENTS))
    text = text.replace("MOST_DESCRIPTORS", str(MOST_DESCRIPTORS))
    names = tuple(sorted({"state", *_IMPORT.findall(text)}))
    # Weak symbols may be null, which the code checks.
    declared = "".join(f"@{IMPORT_PREFIX}{name} = extern_weak global i8\n" for name in names)
    return StubModule(declared + _IMPORT.sub(rf"@{IMPORT_PREFIX}\1", text), names)


def _hook(number: int, signature: Signature) -> str:
    """The function that PyTorch calls: ``(stack, arguments, results)``."""
    count = len(signature.arguments)
    lines = [
        f"define void @hook_{number}(ptr %stack, i64 %arguments_, i64 %results_) uwtable {{",
        "entry:",
        "  %words = alloca [MOST_WORDS x i64], align 16",
        f"  %marks = alloca [{count} x ptr], align 8",
        f"  %results = alloca [{signature.results} x i64], align 8",
        f"  store i64 {number}, ptr %words, align 8",
        *switches_text(signature),
        "  %at_switches = getelementptr i64, ptr %words, i64 1",
        "  store i64 %switches, ptr %at_switches, align 8",
        "  %at0 = getelementptr i64, ptr %words, i64 2",
    ]
    for place, kind in enumerate(signature.arguments):
        lines += _written(place, kind)
    lines += [
        f"  %end = ptrtoint ptr %at{count} to i64",
        "  %begin = ptrtoint ptr %words to i64",
        "  %bytes = sub i64 %end, %begin",
        "  %count = lshr i64 %bytes, 3",
        "  %entry_ = call ptr @find(ptr %words, i64 %count)",
        "  %plan = call ptr @plan_of(ptr %entry_)",
        "  %message = call ptr @message_of(ptr %entry_)",
        "  %fine = icmp eq ptr %message, null",
        "  br i1 %fine, label %choose, label %refuse",
        "refuse:",
        *dropped(signature),
        "  call void @fail(ptr %message)",
        "  ret void",
        "choose:",
        "  %torch_runs = icmp eq ptr %plan, null",
        "  br i1 %torch_runs, label %torch, label %ours",
        "ours:",
        "  %ran = call i1 @run(ptr %plan, ptr %stack, ptr %results)",
        "  br i1 %ran, label %counted, label %late",
        "counted:",
        "  call void @count(ptr %entry_, i64 2)",
        *_remaining(number, signature),
        "late:",
        "  call void @count(ptr %entry_, i64 3)",
        "  br label %torch",
        "torch:",
        f"  %code = call i32 @torch_{number}(ptr %stack, ptr %marks, ptr %results)",
        "  %good = icmp eq i32 %code, 0",
        "  br i1 %good, label %give, label %bad",
        "bad:",
        *_reason(signature),
        *dropped(signature),
        "  call void @fail(ptr %why)",
        "  ret void",
        "give:",
        *dropped(signature),
    ]
    for result in range(signature.results):
        lines += [
            f"  %r{result} = getelementptr i64, ptr %results, i64 {result}",
            f"  %result{result} = load i64, ptr %r{result}, align 8",
            f"  %to{result} = getelementptr i64, ptr %stack, i64 {result}",
            f"  store i64 %result{result}, ptr %to{result}, align 8",
        ]
    lines += ["  ret void", "}", ""]
    return "\n".join(lines)


def _reason(signature: Signature) -> list[str]:
    """Code that sets ``%why`` to the error of PyTorch's kernel, before arguments are freed."""
    lines = ["  %why_said = call ptr @reason_of_failure()"]
    if signature.backend is TorchBackend.CPU:
        return [*lines, "  %why = select i1 true, ptr %why_said, ptr null"]
    tensors = [at for at, kind in enumerate(signature.arguments) if kind is ArgumentKind.TENSOR]
    why = "%why_said"
    lines.append(f"  %first_one = inttoptr i64 %value{tensors[0]} to ptr")
    for place in tensors[1:]:
        lines += [
            f"  %one{place} = inttoptr i64 %value{place} to ptr",
            f"  %apart{place} = call ptr @apart(ptr %first_one, ptr %one{place})",
            f"  %is_near{place} = icmp eq ptr %apart{place}, null",
            f"  %told{place} = icmp ne ptr {why}, @failed",
            f"  %keeps{place} = or i1 %is_near{place}, %told{place}",
            f"  %why{place} = select i1 %keeps{place}, ptr {why}, ptr %apart{place}",
        ]
        why = f"%why{place}"
    return [*lines, f"  %why = select i1 true, ptr {why}, ptr null"]


def _remaining(number: int, signature: Signature) -> list[str]:
    """Code that computes the results that a plan leaves to PyTorch."""
    if signature.fallback not in DIVISIBLE:
        return ["  br label %give"]
    return [
        "  %at_left = getelementptr i64, ptr %plan, i64 7",
        "  %left = load i64, ptr %at_left, align 8",
        "  %complete = icmp eq i64 %left, 0",
        "  br i1 %complete, label %give, label %remaining",
        "remaining:",
        f"  %rest_code = call i32 @rest_torch_{number}"
        "(ptr %stack, ptr %marks, ptr %results, i64 %left)",
        "  %rest_good = icmp eq i32 %rest_code, 0",
        "  br i1 %rest_good, label %give, label %rest_bad",
        "rest_bad:",
        "  call void @drop_outputs_of(ptr %plan, ptr %results)",
        "  br label %bad",
    ]


def _written(place: int, kind: ArgumentKind) -> list[str]:
    """Code that encodes an argument in the words."""
    lines = [
        f"  %a{place} = getelementptr i64, ptr %stack, i64 {place}",
        f"  %value{place} = load i64, ptr %a{place}, align 8",
        f"  %m{place} = getelementptr ptr, ptr %marks, i64 {place}",
        f"  store ptr %at{place}, ptr %m{place}, align 8",
    ]
    if kind in ONE_WORD:
        return [
            *lines,
            f"  store i64 %value{place}, ptr %at{place}, align 8",
            f"  %at{place + 1} = getelementptr i64, ptr %at{place}, i64 1",
        ]
    name = "ints" if kind is ArgumentKind.THREE_BOOLS else kind.value.replace(" ", "_")
    return [
        *lines,
        f"  %at{place + 1} = call ptr @put_{name}(ptr %at{place}, i64 %value{place})",
    ]
