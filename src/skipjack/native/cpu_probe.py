"""Queries LLVM about a CPU by name: ``python -m skipjack.native.cpu_probe TRIPLE CPU``.

This runs in a separate process because LLVM lists the processors that it knows on standard error
only, once for each process, and ends the process if a processor has no 64-bit mode. The features
that the name implies are printed as a JSON list.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from skipjack.core import X86_LEVELS, features_of
from skipjack.native import llvm

# Features that decide the level, the width of vectors or the instructions for arithmetic.
_X86 = (
    *features_of(X86_LEVELS[-1]),
    *("avx512vnni", "avx512bf16", "avx512fp16", "avxvnni"),
)
_ARM = ("neon", "fp-armv8", "fullfp16", "dotprod", "bf16", "i8mm", "sve", "sve2", "lse")


def implied_features(triple: str, cpu: str, requested: Sequence[str]) -> list[str]:
    """The requested features that the CPU has.

    llvmlite has no function for this. But LLVM inlines a function that needs a feature only into
    callers that have it: of one pair of functions for each feature, those that were inlined are
    gone.
    """
    binding = llvm.binding()
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu)
    pairs = "".join(
        f'define internal i32 @needs{number}(i32 %x) "target-cpu"="{cpu}" '
        f'"target-features"="+{feature}" {{\n  %y = mul i32 %x, %x\n  ret i32 %y\n}}\n'
        f'define i32 @has{number}(i32 %x) "target-cpu"="{cpu}" {{\n'
        f"  %y = call i32 @needs{number}(i32 %x)\n  ret i32 %y\n}}\n"
        for number, feature in enumerate(requested)
    )
    module = binding.parse_assembly(f'target triple = "{triple}"\n{pairs}')
    builder = binding.create_pass_builder(
        machine, binding.create_pipeline_tuning_options(speed_level=2)
    )
    builder.getModulePassManager().run(module, builder)
    left = {function.name for function in module.functions}
    return [feature for number, feature in enumerate(requested) if f"needs{number}" not in left]


def main(triple: str, cpu: str) -> None:
    """List the processors on standard error, then the features on standard output."""
    target = llvm.binding().Target.from_triple(triple)
    target.create_target_machine(cpu="help")
    requested = _X86 if triple.startswith("x86_64") else _ARM
    print(json.dumps(implied_features(triple, cpu, requested)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
