"""Kernels of several stages, and the base classes of solvers that write LLVM IR.

A Winograd convolution is a transform, a batch of matrix products and a transform back. Whatever
can be generated as a kernel can be a stage of a larger one: its functions are renamed, and it is
passed its own part of the slots. Arrays between stages are scratch slots
(`skipjack.native.slots.scratch_slot`); slots of the same name share their memory. Stages run one
after the other, each shared out to the threads. `Rounds` repeats some of them, image by image, so
that the data between them stays in the caches; if the rounds themselves are shared out, every
thread runs its share in its own scratch memory and waits for no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from skipjack.core import Config, Device, Problem
from skipjack.native import IRWriter, function, llvm, parallel_slot, target_of
from skipjack.solvers.cpu.ir.kernel import KERNEL, run_task, share, slot, task_signature
from skipjack.solvers.solver import Blob, Slot, Solver, Source

# Stages, and how they are composed to a kernel.

_DEFINED = re.compile(r"^define [^@\n]*@([\w.]+)\(", re.MULTILINE)
_DECLARED = re.compile(r"^declare .*$", re.MULTILINE)
_METADATA = re.compile(r"^![\w.]+ = .*$", re.MULTILINE)


@dataclass(frozen=True)
class IRStage:
    """A kernel that is one stage of a larger kernel."""

    write: Callable[[], str]
    """Writes its module, with a function ``void @kernel(ptr slots)``; called only if code is
    needed."""
    slots: tuple[Slot, ...]
    moves: Mapping[int, int] = field(default_factory=dict)
    """In rounds: the bytes by which each pointer among the slots moves from round to round.

    Numbers may move as well. Scratch memory that moves by 0 is shared by all threads.
    """


@dataclass(frozen=True)
class Rounds:
    """Stages that are repeated; several threads share the rounds out."""

    count: int
    stages: tuple[IRStage, ...]
    threads: int = 1
    """If this is more than 1, each stage runs on one thread, and each thread has scratch memory of
    its own. Scratch memory that is also used outside the rounds is shared."""


Part = IRStage | Rounds


def slots_of(parts: Sequence[Part]) -> list[Slot]:
    """The slots of the whole kernel, in order."""
    slots: list[Slot] = []
    shared = _shared(parts)
    for part in parts:
        if isinstance(part, Rounds):
            if part.threads > 1:
                slots += [parallel_slot(part.threads), part.threads, *_owned(part, shared)]
            slots += [_for_all(each, part, shared) for stage in part.stages for each in stage.slots]
        else:
            slots += part.slots
    return slots


def _shared(parts: Sequence[Part]) -> set[Slot]:
    """Scratch slots that are used by stages outside of rounds."""
    return {each for part in parts if isinstance(part, IRStage) for each in part.slots}


def _for_all(each: Slot, rounds: Rounds, shared: set[Slot]) -> Slot:
    """A slot large enough for all threads of some rounds."""
    own = _own_bytes(each, shared)
    return f"{str(each).rpartition(':')[0]}:{own * rounds.threads}" if own else each


def _owned(rounds: Rounds, shared: set[Slot]) -> list[int]:
    """Sizes of the memory that each thread has for itself, in order.

    They are slots and not constants, because some depend on settings made when a kernel runs.
    """
    return [own for stage in rounds.stages for own in _owned_slots(stage, shared).values()]


def _owned_slots(stage: IRStage, shared: set[Slot]) -> dict[int, int]:
    """Slots of which each thread has a part of its own, with the bytes of one part.

    Slots that a stage lists in `moves`, even by 0, are shared.
    """
    every = {at: _own_bytes(each, shared) for at, each in enumerate(stage.slots)}
    return {at: own for at, own in every.items() if own and at not in stage.moves}


def _own_bytes(each: Slot, shared: set[Slot]) -> int:
    """Bytes that a slot gives each thread for itself; 0 for other slots and for shared memory."""
    if not isinstance(each, str) or (each in shared and not each.startswith("@workspace:")):
        return 0
    lends = each.startswith(("@workspace:", "@scratch:"))
    return int(each.rpartition(":")[2]) if lends else 0


def compose(parts: Sequence[Part]) -> str:
    """The module of a whole kernel."""
    return _Composer().module(parts)


class _Composer:
    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """The entry function of each distinct stage, by the text of its module."""
        self.texts: list[str] = []
        self.lines: dict[str, None] = {}
        self.metadata: dict[str, None] = {}
        self.tasks = 0
        self.shared: set[Slot] = set()

    def module(self, parts: Sequence[Part]) -> str:
        w, at = IRWriter(), 0
        self.shared = _shared(parts)
        for part in parts:
            at = self._rounds(w, part, at) if isinstance(part, Rounds) else self._one(w, part, at)
        w.emit("ret void")
        for declaration in sorted(w.declarations):
            self.lines[declaration] = None
        return "\n".join([*self.lines, *self.texts, function(w, KERNEL, 64), *self.metadata, ""])

    def _entry(self, text: str) -> str:
        """Add the module of a stage; returns the new name of its kernel."""
        if text in self.names:
            return self.names[text]
        prefix = f"s{len(self.names)}_"
        self.lines |= dict.fromkeys(_DECLARED.findall(text))
        self.metadata |= dict.fromkeys(_METADATA.findall(text))
        body = _METADATA.sub("", _DECLARED.sub("", text))
        defined = set(_DEFINED.findall(body))
        body = re.sub(r"@([\w.]+)", lambda m: f"@{prefix}{m[1]}" if m[1] in defined else m[0], body)
        self.texts.append(
            body.replace(f"define  void @{prefix}kernel", _internal_definition(prefix))
        )
        self.names[text] = f"@{prefix}kernel"
        return self.names[text]

    def _one(self, w: IRWriter, stage: IRStage, at: int) -> int:
        w.emit(f"call void {self._entry(stage.write())}(ptr {w.advance('%slots', 8 * at)})")
        return at + len(stage.slots)

    def _rounds(self, w: IRWriter, part: Rounds, at: int) -> int:
        count = sum(len(stage.slots) for stage in part.stages)
        if part.threads == 1:
            self._repeated(w, part, at, "0", str(part.count))
            return at + count
        name = f"rounds{self.tasks}"
        self.tasks += 1
        inner = IRWriter()
        begin, end = share(inner, part.count)
        own = len(_owned(part, self.shared))
        mine = [slot(inner, at + 2 + number, "i64") for number in range(own)]
        rounds = inner.value(f"sub i64 {end}, {begin}")
        self._repeated(inner, part, at + 2 + own, begin, rounds, mine)
        inner.emit("ret void")
        for declaration in sorted(inner.declarations):
            self.lines[declaration] = None
        self.texts.append(function(inner, task_signature(name), 64, linkage="internal"))
        run_task(w, slot(w, at), slot(w, at + 1, "i64"), name)
        return at + 2 + own + count

    def _repeated(
        self,
        w: IRWriter,
        part: Rounds,
        at: int,
        begin: str,
        rounds: str,
        owned: Sequence[str] = (),
    ) -> None:
        """Write the stages in a loop that works on a copy of the slots, whose pointers move.

        With threads, `owned` has the sizes of the memory that each thread has for itself.
        """
        left = list(owned)
        count = sum(len(stage.slots) for stage in part.stages)
        copied = w.value(f"alloca [{count} x i64], align 16")
        _copy(w, w.advance("%slots", 8 * at), copied, count)
        moving: list[tuple[str, int]] = []
        place = 0
        for stage in part.stages:
            owns = _owned_slots(stage, self.shared) if owned else {}
            for number in range(len(stage.slots)):
                pointer = w.advance(copied, 8 * (place + number))
                move = stage.moves.get(number, 0)
                if move:
                    moving.append((pointer, move))
                    _add(w, pointer, w.value(f"mul i64 {begin}, {move}"))
                elif number in owns:
                    _add(w, pointer, w.value(f"mul i64 %index, {left.pop(0)}"))
            place += len(stage.slots)

        def body(_: str, __: list[str]) -> list[str]:
            inside = 0
            for stage in part.stages:
                name = self._entry(stage.write())
                w.emit(f"call void {name}(ptr {w.advance(copied, 8 * inside)})")
                inside += len(stage.slots)
            for pointer, move in moving:
                _add(w, pointer, str(move))
            return []

        w.loop_or_skip(rounds, [], body)


def _internal_definition(prefix: str) -> str:
    return f"define internal void @{prefix}kernel"


def _copy(w: IRWriter, source: str, target: str, count: int) -> None:
    """Copy slots one by one: a call of ``memcpy`` would need a symbol from outside the module."""

    def body(_: str, at: list[str]) -> list[str]:
        w.emit(f"store i64 {w.value(f'load i64, ptr {at[0]}, align 8')}, ptr {at[1]}, align 8")
        return [w.advance(pointer, 8) for pointer in at]

    w.loop(count, [("ptr", source), ("ptr", target)], body)


def _add(w: IRWriter, pointer: str, number: str) -> None:
    value = w.value(f"load i64, ptr {pointer}, align 8")
    w.emit(f"store i64 {w.value(f'add i64 {value}, {number}')}, ptr {pointer}, align 8")


# From LLVM IR text to object code: the last step of every solver here.


class LlvmSolver(Solver):
    """Base class of solvers that write LLVM IR."""

    def compiler(self) -> str:
        return llvm.compiler_version()

    def source(self, text: str, device: Device) -> Source:
        return Source(text, target_of(device), self.compiler())

    def compile(self, source: Source) -> Blob:
        data = llvm.compile_object(source.text, source.target)
        return Blob(data, source.symbol, resources={"object_bytes": float(len(data))})


# Solvers whose kernels have several stages.


class StagedSolver(LlvmSolver):
    """Base class of solvers whose kernels are made of `parts`."""

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """The stages in order."""
        raise NotImplementedError

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        text = compose(self.parts(problem, device, config))
        return self.source(text, device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        return slots_of(self.parts(problem, device, config))
