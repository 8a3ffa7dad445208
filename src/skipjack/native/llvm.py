"""The door to LLVM: what this host is, compiling IR text to object code, loading object code.

llvmlite is imported when first needed, so that importing Skipjack stays quick.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipjack.core.cpu_levels import AARCH64, X86_LEVELS, features_of, level_of, levels_up_to
from skipjack.errors import SkipjackError, UsageError
from skipjack.native.forks import ForkOrder, forks_wait_for
from skipjack.settings import CPU_LEVEL

# Loop strength reduction folds the row pointers of a register tile into one chain of additions; the
# scheduler then moves loads together until accumulators spill (a third to a half of the speed).
# Nests run as fast without it and build a fifth sooner.
_OPTIONS = ("-disable-lsr",)
LEVEL_VARIABLE = CPU_LEVEL.name
"""Names the highest level of this CPU's instruction set that may be used."""
NOTE = "skipjack code for "
"""How the note in an object file begins that says what the code needs to run."""
_NOTE_NUMBER = 1_000_000
_DEFINE = re.compile(r"^(define [^\n]*)\{$", re.MULTILINE)


class CompileError(SkipjackError):
    """LLVM refused the module."""


class CannotRunError(SkipjackError):
    """Machine code that needs instructions which this CPU lacks."""


_importing = threading.RLock()

forks_wait_for(_importing, ForkOrder.LLVM_IMPORT)


def binding() -> Any:
    """llvmlite's binding, with all targets that it was built with ready to generate code."""
    return _binding or _import_binding()


_binding: Any = None


def _import_binding() -> Any:
    global _binding
    with _importing:
        _binding = _binding or _ready_binding()
    return _binding


def _ready_binding() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for option in _OPTIONS:
        llvm.set_option("skipjack", option)
    if (lock := getattr(llvm.ffi.lib, "_lock", None)) is not None:
        forks_wait_for(lock, ForkOrder.LLVM)
    return llvm


@functools.cache
def compiler_version() -> str:
    """Name and version of the compiler and its options, as builds record it."""
    version = ".".join(map(str, binding().llvm_version_info))
    return f"llvm-{version}/{compiler_release()}"


def compiler_release() -> str:
    """The same without the version of LLVM, which is not loaded for it: llvmlite comes with one."""
    import llvmlite

    return " ".join((f"llvmlite-{llvmlite.__version__}", *_OPTIONS))


@dataclass(frozen=True, slots=True)
class Target:
    """What code is generated for. Its text is part of the identity of a build.

    The level and the flags decide which instructions there may be; the name of a CPU decides only
    how they are chosen among and ordered, because a hypervisor may hide what the name implies.
    """

    triple: str
    level: str
    flags: tuple[str, ...] = ()
    """Features that a solver asks for beyond the level, as ``+avx512vnni``."""
    tune: str = ""
    """The CPU to schedule for."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """What `str` gave."""
        triple, level, flags, tune = text.split("|")
        return cls(triple, level, tuple(filter(None, flags.split(","))), tune)

    def __str__(self) -> str:
        return "|".join((self.triple, self.level, ",".join(self.flags), self.tune))

    @property
    def needs(self) -> tuple[str, ...]:
        """Features without which the code does not run."""
        beyond = (flag[1:] for flag in self.flags if flag.startswith("+"))
        return (*features_of(self.level), *beyond)


@functools.cache
def host() -> tuple[str, str, tuple[str, ...]]:
    """Triple, CPU name and features of this machine, no more than `LEVEL_VARIABLE` allows."""
    llvm = binding()
    name, present = llvm.get_host_cpu_name(), host_features()
    most = CPU_LEVEL.text()
    if most:
        has = level_of(name, present)
        if most not in levels_up_to(has):
            known = ", ".join(reversed(levels_up_to(has)))
            raise UsageError(f"{LEVEL_VARIABLE} is {most!r}; this CPU has {known}")
        if most != has:
            present = tuple(sorted(set(present) & set(features_of(most))))
    return llvm.get_default_triple(), name, present


@functools.cache
def host_features() -> tuple[str, ...]:
    """Everything that this processor says it has."""
    features = binding().get_host_cpu_features()
    return tuple(sorted(name for name, there in features.items() if there))


@functools.lru_cache(maxsize=8)
def _machine(target: Target, *, jit: bool = False) -> Any:
    llvm = binding()
    cpu = "generic" if target.level == AARCH64 else target.level
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=cpu,
        features=",".join(target.flags),
        opt=2,
        reloc="pic",
        codemodel="default",
        jit=jit,
    )


def _parse(text: str, target: Target) -> Any:
    """The module; its functions say what to schedule for, its object file what it needs to run."""
    if target.tune:
        text = _DEFINE.sub(rf'\1"tune-cpu"="{target.tune}" {{', text)
    note = f"{NOTE}{target.level} {','.join(target.flags)}".rstrip()
    text += f'\n!llvm.ident = !{{!{_NOTE_NUMBER}}}\n!{_NOTE_NUMBER} = !{{!"{note}"}}\n'
    return binding().parse_assembly(text)


def compile_object(text: str, target: str) -> bytes:
    """Object code of a module. No pass pipeline: the text is already what should run."""
    goal = Target.parse(target)
    try:
        module = _parse(text, goal)
        module.verify()
        data: bytes = _machine(goal).emit_object(module)
    except RuntimeError as error:
        raise CompileError(f"LLVM refused the module: {error}") from error
    return data


def assembly(text: str, target: str) -> str:
    """The same as assembly text, for people; comments say what was spilled."""
    goal = Target.parse(target)
    machine = _machine(goal)
    machine.set_asm_verbosity(True)
    listing: str = machine.emit_assembly(_parse(text, goal))
    return listing


def needs_of(data: bytes) -> Target | None:
    """What an object file says that its code needs to run; None if it says nothing."""
    at = data.find(NOTE.encode())
    if at < 0:
        return None
    text = data[at + len(NOTE) : data.find(b"\0", at)].decode("ascii", "replace")
    level, _, flags = text.partition(" ")
    return Target("", level, tuple(filter(None, flags.split(","))))


class Loader:
    """Loads object code into this process; what it loaded goes when it is unloaded or closed."""

    def __init__(self) -> None:
        triple, name, features = host()
        self._here = Target(triple, level_of(name, features)), features
        # The JIT takes its own target machine: sharing one between engines crashed.
        machine = _machine.__wrapped__(self._here[0], jit=True)
        # The older linker ends the process where sections and libraries lie 2 GiB or more apart.
        self._jit = binding().create_lljit_compiler(machine, use_jit_link=True)
        self._loaded: dict[int, Any] = {}
        self._count = 0

    def load(self, data: bytes, symbol: str) -> int:
        """Address of a function in this object; the object's other names stay private to it."""
        return self.load_several(data, [symbol])[symbol]

    def load_several(
        self, data: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Addresses of functions in this object; `CannotRunError` if this CPU cannot run it.

        `imports` are addresses of what it refers to and the process has under no global name.
        """
        self._check(data)
        self._count += 1
        builder = binding().JITLibraryBuilder().add_object_img(data).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        for symbol, address in (imports or {}).items():
            builder.import_symbol(symbol, address)
        tracker = builder.link(self._jit, f"kernel{self._count}")
        addresses = {symbol: int(tracker[symbol]) for symbol in symbols}
        self._loaded |= dict.fromkeys(addresses.values(), tracker)
        return addresses

    def _check(self, data: bytes) -> None:
        needed = needs_of(data)
        here, features = self._here
        if needed is None:
            return
        known = needed.level in (*X86_LEVELS, AARCH64)
        lacking = set(needed.needs) - set(features) if known else {needed.level}
        if lacking:
            raise CannotRunError(
                f"machine code for {' '.join((needed.level, *needed.flags))} does not run "
                f"here: this CPU has {here.level}, without {', '.join(sorted(lacking))}; "
                "build it again on this machine"
            )

    def unload(self, address: int) -> None:
        """Free the object that this function came from."""
        self._loaded.pop(address, None)

    def close(self) -> None:
        """Free everything, also what LLVM keeps of objects that were unloaded (9 KB each)."""
        self._loaded.clear()
        self._jit.close()


def native(address: int, *arguments: type) -> Any:
    """A C function without result at an address, callable with ctypes values."""
    return ctypes.CFUNCTYPE(None, *arguments)(address)
