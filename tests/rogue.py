"""A plugin whose configs misbehave in every way that a build or a kernel can.

Workers load it through ``SKIPJACK_PLUGINS``. It has an operation of its own, so that no other test
meets its solver.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

import numpy as np

from skipjack import operations, solvers
from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem
from skipjack.native import llvm, target_of
from skipjack.operations import Elementwise
from skipjack.solvers import Blob, Slot, Solver, Source

OPERATION = "rogue"

FIRST = {
    "right": "ret void",
    "slow": "br label %wait\nwait:\n  %k = phi i64 [ 0, %entry ], [ %k1, %wait ]\n"
    "  %k1 = add i64 %k, 1\n  store volatile i64 %k1, ptr @calls\n"
    "  %done = icmp eq i64 %k1, 3000\n  br i1 %done, label %end, label %wait\nend:\n  ret void",
    "wrong": "ret void",
    "segfault": "store volatile i64 0, ptr null\n  ret void",
    "trap": "call void @llvm.trap()\n  unreachable",
    "spin": "br label %loop\nloop:\n  store volatile i64 0, ptr @calls\n  br label %loop",
    "before": "%q = getelementptr float, ptr %out, i64 -1\n  store float 1.0, ptr %q\n  ret void",
    "behind": "%q = getelementptr float, ptr %out, i64 %n\n  store float 1.0, ptr %q\n  ret void",
    "far": "%q = getelementptr float, ptr %out, i64 4096\n  store float 1.0, ptr %q\n  ret void",
    "aligned": "%where = ptrtoint ptr %out to i64\n  %rest = and i64 %where, 63\n"
    "  %odd = icmp ne i64 %rest, 0\n  br i1 %odd, label %bad, label %good\nbad:\n"
    "  call void @llvm.trap()\n  unreachable\ngood:\n  ret void",
    "input": "store float 9.0, ptr %x\n  ret void",
    "bad_ir": "this is no instruction",
}
"""What a kernel does before it adds."""
LATER = {"segfault_later": "segfault", "spin_later": "spin"}
"""Right when it is verified, rogue when it is timed."""
COMPILING = ("refuse", "exit", "kill", "hang")
BEHAVIOURS = (*FIRST, *LATER, *COMPILING)

_TEXT = """; {behaviour}
@calls = internal global i64 0
declare void @llvm.trap()
define internal void @first(ptr %x, ptr %out, i64 %n) noinline {{
entry:
  {first}
}}
define void @kernel(ptr %slots) {{
entry:
  %px = load ptr, ptr %slots
  %s1 = getelementptr i64, ptr %slots, i64 1
  %py = load ptr, ptr %s1
  %s2 = getelementptr i64, ptr %slots, i64 2
  %pout = load ptr, ptr %s2
  %s3 = getelementptr i64, ptr %slots, i64 3
  %n = load i64, ptr %s3
  %before = load i64, ptr @calls
  %now = add i64 %before, 1
  store i64 %now, ptr @calls
  %early = icmp ule i64 %now, {quiet_calls}
  br i1 %early, label %loop, label %act
act:
  call void @first(ptr %px, ptr %pout, i64 %n)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ 0, %act ], [ %next, %loop ]
  %ax = getelementptr float, ptr %px, i64 %i
  %ay = getelementptr float, ptr %py, i64 %i
  %aout = getelementptr float, ptr %pout, i64 %i
  %vx = load float, ptr %ax
  %vy = load float, ptr %ay
  %sum = fadd float %vx, %vy
  store float {result}, ptr %aout
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""


def text_of(behaviour: str) -> str:
    """IR of a kernel that behaves so."""
    kernel = LATER.get(behaviour, behaviour)
    return _TEXT.format(
        behaviour=behaviour,
        first=FIRST.get(kernel, FIRST["right"]),
        quiet_calls=1 if behaviour in LATER else 0,
        result="%vx" if behaviour == "wrong" else "%sum",
    )


class RogueSolver(Solver):
    """One parameter: the behaviour."""

    name = "rogue"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        return "" if problem.operation == OPERATION else "it is for tests"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        return ParameterSpace([Parameter("behaviour", BEHAVIOURS, default="slow")])

    def compiler(self) -> str:
        return llvm.compiler_version()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        return Source(text_of(str(config["behaviour"])), target_of(device), self.compiler())

    def compile(self, source: Source) -> Blob:
        behaviour = source.text.split("\n")[0].removeprefix("; ")
        if behaviour == "refuse":
            raise RuntimeError("this compiler says no")
        if behaviour == "exit":
            os._exit(3)
        if behaviour == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "hang":
            time.sleep(1000)
        return Blob(llvm.compile_object(source.text, source.target))

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        return ["x", "y", "out", problem.shape[0]]


operations.register(Elementwise(OPERATION, np.add, 2, step="add"))
solvers.register(RogueSolver())
