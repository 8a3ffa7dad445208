"""Installs native stubs for PyTorch's operations in this process, and removes them."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any

from skipjack.bank import layers_of
from skipjack.errors import SkipjackError
from skipjack.integrations.torch.dispatcher_registration import (
    backends_by_name,
    is_replaced,
    scaled_overloads,
    small_call_ns,
    stand_in,
    wanted_signatures,
    without_override_warning,
)
from skipjack.integrations.torch.matching import read_call
from skipjack.integrations.torch.outcomes import TorchDecision
from skipjack.integrations.torch.selection import (
    CallChooser,
    HookOptions,
    RaceResults,
    SearchMonitor,
    own_kernel,
    with_torch_time,
)
from skipjack.integrations.torch.stubs import (
    CPP_SYMBOLS,
    SIGNATURES,
    STUB_STEPS,
    CallTable,
    Signature,
    TableEntry,
    TorchAbi,
    TorchBackend,
    driver_address,
    stub_code,
    stub_module,
    torch_abi,
    torch_module,
)
from skipjack.native import cpu, llvm
from skipjack.runtime.process import make_policy
from skipjack.settings import load_settings

log = logging.getLogger(__name__)

_FOR_GPUS = (
    *("aoti_torch_get_device_type", "aoti_torch_get_device_index", "cuLaunchKernelEx"),
    "aoti_torch_get_current_cuda_stream",
)

Listener = Callable[[TorchDecision], None]


class TorchHook:
    """The stubs of this process. Created once: their code and table are never freed."""

    def __init__(self, abi: TorchAbi) -> None:
        self._abi = abi
        self.table = CallTable()
        self.signatures = tuple(one for one in SIGNATURES if self._has_fallback(one))
        self._loader = llvm.Loader()
        module = stub_module(self.signatures)
        code = stub_code(module.text, cpu.target_of(cpu.detect()))
        hooks = [f"hook_{number}" for number in range(len(self.signatures))]
        imports = module.imports(self._address, self.table.state_address)
        imports |= {name: abi.address(name) for name in CPP_SYMBOLS}
        names = ["insert", "parallel", *STUB_STEPS, *hooks]
        found = self._loader.load_several(code, names, imports)
        self._hooks = {one: found[f"hook_{at}"] for at, one in enumerate(self.signatures)}
        self._insert = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found["insert"])
        self._functions = {name: found[name] for name in ("parallel", *STUB_STEPS)}
        self._callback = self._first_seen
        self._lock = RLock()
        self._own: list[Any] = []
        self._libraries: list[int] = []
        self._installed: tuple[Signature, ...] = ()
        self.left_alone: tuple[str, ...] = ()
        """Operations that are not hooked because kernels save less than the hook costs."""
        self._detours: dict[Signature, float] = {}
        self._stand_ins: list[Any] = []
        self._chooser: CallChooser | None = None
        self.decisions: dict[tuple[int, ...], TorchDecision] = {}
        self.listeners: list[Listener] = []
        self._watcher = SearchMonitor(self._kernel_ns)
        self._deciding: TableEntry | None = None
        self.failures = 0
        """Calls for which the decision failed."""

    @property
    def is_installed(self) -> bool:
        """Whether PyTorch calls the stubs."""
        return bool(self._libraries)

    def install(self, options: HookOptions) -> None:
        """Have PyTorch call the stubs. If they are installed already, only change the options."""
        with self._lock:
            if self._chooser is not None and self._chooser.options != options:
                self.forget()
            self._chooser = CallChooser(self.table, self._functions, options, self._detours)
            wanted = self._wanted(options)
            if not set(wanted) <= set(self._installed):
                self.table.close()  # calls that time the hook need no decision
                self._unregister()
                with without_override_warning():
                    self._register(wanted)
            self.table.open(self._callback)

    def uninstall(self) -> None:
        """Have PyTorch call its own kernels again."""
        with self._lock:
            self.table.close()
            self._watcher.forget()
            self._ask_about_open()
            self._unregister()

    def forget(self) -> None:
        """Decide anew about all calls."""
        with self._lock:
            self.decisions.clear()
            for entry in self.table.entries.values():
                entry.ask_again()

    def start_in_child(self) -> None:
        """In a forked child, which has no other threads: release what they held."""
        self._lock, self._watcher = RLock(), SearchMonitor(self._kernel_ns)
        self.table.give_back_arena()
        if self._deciding:
            self._deciding.ask_again()
        self._ask_about_open()

    def _kernel_ns(self) -> float:
        """The time of calls so far, for kinds that were timed."""
        taken = 0.0
        for words, one in list(self.decisions.items()):
            entry = self.table.entries[words]
            taken += entry.torch_calls * (one.before_ns or 0.0)
            taken += entry.our_calls * (one.after_ns or 0.0)
        return taken

    def _ask_about_open(self) -> None:
        """Running searches are no longer watched: the next call asks for their results."""
        for words, decision in self.decisions.items():
            if not decision.is_final:
                self.table.entries[words].ask_again()

    # Registration

    def _has_fallback(self, signature: Signature) -> bool:
        needed = [signature.function]
        if signature.backend is TorchBackend.CUDA:
            needed += _FOR_GPUS
        return all(map(self._address, needed))

    def _address(self, name: str) -> int:
        if name == "delete_value":
            found = self._abi.address("torch_delete_stable_ivalue")
            # Before 2.13 it was C++'s delete, which is the C library's free.
            return found or ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p).value or 0
        if name.startswith("Py"):
            return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
        if name.startswith("cu"):
            return driver_address(name)
        return self._abi.address(name)

    def _call(self, name: str, *arguments: Any) -> None:
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *map(type, arguments))(self._abi.address(name))
        if function(*arguments):
            raise SkipjackError(f"PyTorch {self._abi.version} refused {name}")

    def _library(self, kind: str, *names: str) -> int:
        made = ctypes.c_void_p()
        where = [ctypes.c_char_p(b"skipjack"), ctypes.c_uint32(1), ctypes.pointer(made)]
        texts = [ctypes.c_char_p(name.encode()) for name in names]
        self._call(f"aoti_torch_library_init_{kind}", *texts, *where)
        return made.value or 0

    def _wanted(self, options: HookOptions) -> tuple[Signature, ...]:
        """The operations to hook; those with a high overhead only if they may gain."""
        self.left_alone = ()
        if options.wants_every_call:
            return self.signatures
        settings = load_settings()
        layers = layers_of(settings.user_dir, settings.banks, settings.system_dir)
        verdicts = [
            one
            for one in RaceResults(settings.user_dir).all()
            if one.subject.torch == self._abi.version
        ]
        found, vain = wanted_signatures(self.signatures, layers, verdicts)
        unhooked = (one.name for one in vain if one not in self._installed)
        self.left_alone = tuple(dict.fromkeys(unhooked))
        return found

    def _unregister(self) -> None:
        for one in self._stand_ins:
            one._destroy()
        for library in self._libraries:
            self._call("aoti_torch_delete_library_object", ctypes.c_void_p(library))
        self._stand_ins, self._libraries, self._installed = [], [], ()

    def _register(self, wanted: Sequence[Signature]) -> None:
        ours = [one for one in self.signatures if one.schema]
        if ours and not self._own:
            definitions = self._library("def", "skipjack")
            self._own.append(definitions)
            for schema in {one.name: one.schema for one in ours}.values():
                text = ctypes.c_char_p(schema.encode())
                self._call("aoti_torch_library_def", ctypes.c_void_p(definitions), text)
            self._own += self._implement("skipjack", ours)
            self._own += [
                scaled_overloads(name, backends)
                for name, backends in backends_by_name(ours).items()
            ]
        free = [one for one in wanted if not is_replaced(one)]
        for one in free:
            own_kernel(one.name, one.backend)
        self._libraries += self._implement("aten", [one for one in free if not one.schema])
        stand_ins = [one for one in free if one.schema]
        plain_ns = small_call_ns() if stand_ins and not self._detours else 0.0
        self._stand_ins += [stand_in(one) for one in stand_ins]
        if plain_ns:
            detour_ns = max(small_call_ns() - plain_ns, 0.0)
            self._detours = {one: detour_ns for one in self.signatures if one.schema}
            self.table.forget_calls_without_entry()
        self._installed = tuple(wanted)

    def _implement(self, namespace: str, signatures: list[Signature]) -> list[int]:
        """One library for each backend."""
        return [
            self._implemented(namespace, backend, some)
            for backend in TorchBackend
            if (some := [one for one in signatures if one.backend is backend])
        ]

    def _implemented(
        self, namespace: str, backend: TorchBackend, signatures: list[Signature]
    ) -> int:
        library = self._library("impl", namespace, backend.key)
        for one in signatures:
            name, function = ctypes.c_char_p(one.name.encode()), self._hooks[one]
            arguments = ctypes.c_void_p(library), name, ctypes.c_void_p(function)
            self._call("aoti_torch_library_impl", *arguments)
        return library

    # Called by stubs

    def _first_seen(self, words_at: int, count: int) -> int:
        """Decide about a call given by words; returns the entry, or 0 to use PyTorch's kernel.

        Errors here must not reach PyTorch. An exception of a signal's handler (Ctrl-C, or SIGTERM)
        is raised by the stub after the call.
        """
        try:
            words = tuple(ctypes.cast(words_at, ctypes.POINTER(ctypes.c_int64))[:count])
            return self._decided(words)
        except Exception:
            self.failures += 1
            log.debug("the decision about a call of PyTorch failed", exc_info=True)
            return 0

    def _decided(self, words: tuple[int, ...]) -> int:
        if _is_capturing():
            return 0
        with self._lock:
            chooser = self._chooser
            entry = self.table.entries.get(words)
            if entry is not None and not entry.asks:
                return entry.address
            if chooser is None or (entry is None and self.table.is_full):
                self.table.close()
                return 0
            if entry is None:
                entry = self.table.entries[words] = TableEntry(words)
                self._insert(entry.address)
            decision = self._chosen(chooser, words, entry)
            self.decisions[words] = decision
            if not decision.is_final:
                self._watcher.watch(words, entry, decision, chooser.options.policy)
        for listener in self.listeners:
            listener(decision)
        return entry.address

    def _chosen(
        self, chooser: CallChooser, words: tuple[int, ...], entry: TableEntry
    ) -> TorchDecision:
        before, self._deciding = self._deciding, entry
        entry.torch()
        try:
            call = read_call(words, self.signatures)
            decision = chooser.choose(call, entry)
            if chooser.options.times_torch:
                decision = with_torch_time(decision, call, entry)
            return decision
        except BaseException as error:
            if not isinstance(error, Exception):
                entry.ask_again()
                self._search_no_more()
            raise
        finally:
            self._deciding = before

    def _search_no_more(self) -> None:
        """The program is to end: start no more searches."""
        self._watcher.forget()
        if self._chooser is not None and self._chooser.options.policy.measures:
            log.warning(
                "interrupted: nothing more is tuned in this process; call "
                "skipjack.integrations.torch.activation.enable(...) to turn tuning on again"
            )
            options = replace(self._chooser.options, policy=make_policy("db"))
            self._chooser = CallChooser(self.table, self._functions, options, self._detours)


def _is_capturing() -> bool:
    """Whether a CUDA graph is being captured: nothing may be measured then."""
    torch = torch_module()
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


_hook: TorchHook | None = None


def torch_hook() -> TorchHook:
    """The hook of this process; `UsageError` if PyTorch is missing or too old."""
    global _hook
    if _hook is None:
        _hook = TorchHook(torch_abi())
    return _hook


def _start_in_child() -> None:
    if _hook is not None:
        _hook.start_in_child()


os.register_at_fork(after_in_child=_start_in_child)


def existing_hook() -> TorchHook | None:
    """The hook of this process, if there is one."""
    return _hook
