"""The only access to LLVM: what this host is, compiling IR text, loading and inspecting object
code.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipjack.core import AARCH64, X86_LEVELS, features_of, level_of, levels_up_to
from skipjack.errors import SkipjackError, UsageError
from skipjack.native.forks import ForkOrder, forks_wait_for
from skipjack.settings import CPU_LEVEL

# The interface to LLVM: describing this host, compiling IR text, loading object code.
#
# llvmlite is imported on first use, so that importing Skipjack stays fast.

# Loop strength reduction folds the row pointers of a register tile into one chain of additions; the
# scheduler then groups loads until accumulators spill (a third to a half of the speed). Nests run
# as fast without it and build a fifth faster.
_OPTIONS = ("-disable-lsr",)
LEVEL_VARIABLE = CPU_LEVEL.name
"""The variable that limits the level of the instruction set that is used."""
NOTE = "skipjack code for "
"""The prefix of the note in an object file that states what the code needs to run."""
_NOTE_NUMBER = 1_000_000
_DEFINE = re.compile(r"^(define [^\n]*)\{$", re.MULTILINE)


class CompileError(SkipjackError):
    """LLVM refused the module."""


class CannotRunError(SkipjackError):
    """Machine code that needs instructions which this CPU lacks."""


_importing = threading.RLock()

forks_wait_for(_importing, ForkOrder.LLVM_IMPORT)


def binding() -> Any:
    """llvmlite's binding, with all its targets initialized."""
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
    """Name, version and options of the compiler, as recorded in builds."""
    version = ".".join(map(str, binding().llvm_version_info))
    return f"llvm-{version}/{compiler_release()}"


def compiler_release() -> str:
    """The same without LLVM's version, so that LLVM is not loaded; llvmlite's implies it."""
    import llvmlite

    return " ".join((f"llvmlite-{llvmlite.__version__}", *_OPTIONS))


@dataclass(frozen=True, slots=True)
class Target:
    """The target of code generation. Its text is part of the identity of a build.

    The level and the flags decide which instructions may occur. The name of a CPU decides only how
    they are selected and scheduled, because a hypervisor may hide features that the name implies.
    """

    triple: str
    level: str
    flags: tuple[str, ...] = ()
    """Features that a solver requires beyond the level, such as ``+avx512vnni``."""
    tune: str = ""
    """The CPU to schedule for."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """The inverse of `str`."""
        triple, level, flags, tune = text.split("|")
        return cls(triple, level, tuple(filter(None, flags.split(","))), tune)

    def __str__(self) -> str:
        return "|".join((self.triple, self.level, ",".join(self.flags), self.tune))

    @property
    def needs(self) -> tuple[str, ...]:
        """The features that the code needs to run."""
        beyond = (flag[1:] for flag in self.flags if flag.startswith("+"))
        return (*features_of(self.level), *beyond)


@functools.cache
def host() -> tuple[str, str, tuple[str, ...]]:
    """Triple, CPU name and features of this machine, as far as `LEVEL_VARIABLE` allows."""
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
    """All features that this processor reports."""
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
    """Parse a module, and add the CPU to schedule for and the note of `needs_of`."""
    if target.tune:
        text = _DEFINE.sub(rf'\1"tune-cpu"="{target.tune}" {{', text)
    note = f"{NOTE}{target.level} {','.join(target.flags)}".rstrip()
    text += f'\n!llvm.ident = !{{!{_NOTE_NUMBER}}}\n!{_NOTE_NUMBER} = !{{!"{note}"}}\n'
    return binding().parse_assembly(text)


def compile_object(text: str, target: str) -> bytes:
    """Object code of a module. No optimization passes run: the text is already optimized."""
    parsed = Target.parse(target)
    try:
        module = _parse(text, parsed)
        module.verify()
        data: bytes = _machine(parsed).emit_object(module)
    except RuntimeError as error:
        raise CompileError(f"LLVM refused the module: {error}") from error
    return data


def assembly(text: str, target: str) -> str:
    """The assembly text of a module, with comments about spills."""
    parsed = Target.parse(target)
    machine = _machine(parsed)
    machine.set_asm_verbosity(True)
    listing: str = machine.emit_assembly(_parse(text, parsed))
    return listing


def needs_of(data: bytes) -> Target | None:
    """The target that an object file needs to run, from its note; None if it has no note."""
    at = data.find(NOTE.encode())
    if at < 0:
        return None
    text = data[at + len(NOTE) : data.find(b"\0", at)].decode("ascii", "replace")
    level, _, flags = text.partition(" ")
    return Target("", level, tuple(filter(None, flags.split(","))))


class Loader:
    """Loads object code into this process, until it is unloaded or the loader is closed."""

    def __init__(self) -> None:
        triple, name, features = host()
        self._here = Target(triple, level_of(name, features)), features
        # The JIT gets its own target machine: sharing one between engines crashed.
        machine = _machine.__wrapped__(self._here[0], jit=True)
        # The older linker ends the process if sections and libraries are 2 GiB or more apart.
        self._jit = binding().create_lljit_compiler(machine, use_jit_link=True)
        self._loaded: dict[int, Any] = {}
        self._count = 0

    def load(self, data: bytes, symbol: str) -> int:
        """The address of a function in this object, whose other symbols stay private."""
        return self.load_several(data, [symbol])[symbol]

    def load_several(
        self, data: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Addresses of functions in this object; `CannotRunError` if this CPU cannot run it.

        `imports` are addresses of symbols that the object uses and the process does not export.
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
        """Free the object that contains this function."""
        self._loaded.pop(address, None)

    def close(self) -> None:
        """Free everything, including the 9 KB that LLVM keeps for each unloaded object."""
        self._loaded.clear()
        self._jit.close()


def c_function(address: int, *arguments: type) -> Any:
    """The C function without result at an address."""
    return ctypes.CFUNCTYPE(None, *arguments)(address)


# Properties of machine code that are read without running it: size, spills, imports.

# LLVM's comment states the bytes; scalars in vector registers are spilled in 4 or 8 bytes.
_SPILL = re.compile(r"^.*\b(?:16|32|64)-byte (?:Folded )?Spill", re.MULTILINE)
_VECTOR_REGISTER = re.compile(r"%[xyz]mm\d+\b|\bq\d+\b")
_SYMTAB = 2


def text_bytes(data: bytes) -> int:
    """Bytes of instructions in an object file."""
    code = binding().ObjectFileRef.from_data(data)
    return sum(section.size() for section in code.sections() if section.is_text())


def vector_spills(text: str, target: str) -> int | None:
    """The number of vector registers that the code of this IR spills to the stack.

    Spills are counted in the assembly text, whether in a loop or not. None if LLVM fails.
    """
    try:
        listing = assembly(text, target)
    except RuntimeError:
        return None
    return sum(len(_VECTOR_REGISTER.findall(line)) for line in _SPILL.findall(listing))


def undefined_symbols(data: bytes) -> list[str] | None:
    """Functions that an ELF object imports; None for other formats."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    (table_at,) = struct.unpack_from("<Q", data, 40)
    entry, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table_at + n * entry) for n in range(count)]
    found = []
    for _, kind, _, _, start, size, link, _, _, step in headers:
        if kind != _SYMTAB:
            continue
        names = headers[link][4]
        for at in range(start, start + size, step):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if name and not section:
                found.append(data[names + name : data.index(b"\0", names + name)].decode())
    return sorted(found)
