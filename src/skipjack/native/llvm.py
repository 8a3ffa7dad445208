"""The door to LLVM: what this host is, compiling IR text to object code, loading object code.

llvmlite is imported when first needed, so that importing Skipjack stays quick.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from skipjack.errors import SkipjackError

# Loop strength reduction folds the row pointers of a register tile into one chain of additions; the
# scheduler then moves loads together until accumulators spill (a third to a half of the speed).
# Nests run as fast without it and build a fifth sooner.
_OPTIONS = ("-disable-lsr",)


class CompileError(SkipjackError):
    """LLVM refused the module."""


@functools.cache
def binding() -> Any:
    """llvmlite's binding, with all targets that it was built with ready to generate code."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for option in _OPTIONS:
        llvm.set_option("skipjack", option)
    return llvm


@functools.cache
def compiler_version() -> str:
    """Name and version of the compiler and its options, as builds record it."""
    import llvmlite

    version = ".".join(map(str, binding().llvm_version_info))
    return " ".join((f"llvm-{version}/llvmlite-{llvmlite.__version__}", *_OPTIONS))


@functools.cache
def host() -> tuple[str, str, tuple[str, ...]]:
    """Triple, CPU name and features (``+avx2`` only those present) of this machine."""
    llvm = binding()
    features = llvm.get_host_cpu_features()
    present = tuple(sorted(name for name, there in features.items() if there))
    return llvm.get_default_triple(), llvm.get_host_cpu_name(), present


@functools.lru_cache(maxsize=8)
def _machine(target: str) -> Any:
    triple, cpu, features = target.split("|")
    llvm = binding()
    flags = ",".join(f"+{name}" for name in features.split(",") if name)
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=flags, opt=2, reloc="pic", codemodel="default"
    )


def compile_object(text: str, target: str) -> bytes:
    """Object code of a module. No pass pipeline: the text is already what should run."""
    llvm = binding()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
        data: bytes = _machine(target).emit_object(module)
    except RuntimeError as error:
        raise CompileError(f"LLVM refused the module: {error}") from error
    return data


def assembly(text: str, target: str) -> str:
    """The same as assembly text, for people; comments say what was spilled."""
    llvm = binding()
    machine = _machine(target)
    machine.set_asm_verbosity(True)
    listing: str = machine.emit_assembly(llvm.parse_assembly(text))
    return listing


class Loader:
    """Loads object code into this process; what it loaded goes when it is unloaded or closed."""

    def __init__(self) -> None:
        triple, cpu, features = host()
        flags = ",".join(f"+{name}" for name in features)
        llvm = binding()
        # The JIT takes its own target machine: sharing one between engines crashed.
        machine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=cpu, features=flags, opt=2, reloc="pic", codemodel="default", jit=True
        )
        self._jit = llvm.create_lljit_compiler(machine)
        self._loaded: dict[int, Any] = {}
        self._count = 0

    def load(self, data: bytes, symbol: str) -> int:
        """Address of a function in this object; the object's other names stay private to it."""
        return self.load_several(data, [symbol])[symbol]

    def load_several(self, data: bytes, symbols: Sequence[str]) -> dict[str, int]:
        """Addresses of functions in this object."""
        self._count += 1
        builder = binding().JITLibraryBuilder().add_object_img(data).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        tracker = builder.link(self._jit, f"kernel{self._count}")
        addresses = {symbol: int(tracker[symbol]) for symbol in symbols}
        self._loaded |= dict.fromkeys(addresses.values(), tracker)
        return addresses

    def unload(self, address: int) -> None:
        """Free the object that this function came from."""
        self._loaded.pop(address, None)

    def close(self) -> None:
        """Free everything."""
        self._loaded.clear()


def native(address: int, *arguments: type) -> Any:
    """A C function without result at an address, callable with ctypes values."""
    return ctypes.CFUNCTYPE(None, *arguments)(address)
