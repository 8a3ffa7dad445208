"""Drivers and a driver's library that do nothing but answer, and remember what was asked."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from skipjack.core import Device
from skipjack.gpu import Gpu, GpuError


class Function:
    """As ctypes has them: callable, with parameter types that can be set."""

    def __init__(self, name: str, calls: list[tuple[str, Any]], act: Callable[..., int]) -> None:
        self.argtypes: tuple[Any, ...] = ()
        self.restype: Any = None
        self._name, self._calls, self._act = name, calls, act

    def __call__(self, *arguments: Any) -> int:
        assert len(arguments) == len(self.argtypes), self._name
        for kind, argument in zip(self.argtypes, arguments, strict=True):
            kind.from_param(argument)  # what ctypes would refuse
        self._calls.append((self._name, arguments))
        return self._act(*arguments)


class StandIn:
    """Functions by name; those that are not among `actions` succeed and answer with a handle."""

    def __init__(self, **actions: Callable[..., int] | int) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._functions: dict[str, Function] = {}
        self._actions = actions

    def __getattr__(self, name: str) -> Function:
        if not name.startswith(("cu", "hip")):
            raise AttributeError(name)
        if name not in self._functions:
            act = self._actions.get(name, succeed)
            self._functions[name] = Function(name, self.calls, act if callable(act) else code(act))
        return self._functions[name]

    def named(self, name: str) -> list[Any]:
        """The arguments of all calls of a function."""
        return [arguments for called, arguments in self.calls if called == name]


def succeed(*arguments: Any) -> int:
    """Put a handle where one is expected."""
    place = getattr(arguments[0], "_obj", None) if arguments else None
    if isinstance(place, ctypes.c_void_p):
        place.value = 0x1000
    return 0


def code(number: int) -> Callable[..., int]:
    """Answers with an error."""
    return lambda *_: number


def put(value: Any) -> Callable[..., int]:
    """Puts a value at the first parameter."""

    def act(place: Any, *_: Any) -> int:
        target = getattr(place, "_obj", place)
        target.value = value
        return 0

    return act


def chosen(values: dict[int, int]) -> Callable[..., int]:
    """Puts a value by the number at the second parameter, as attributes are asked for."""

    def act(place: Any, which: int, *_: Any) -> int:
        place._obj.value = values[which]
        return 0

    return act


def words(text: bytes) -> Callable[..., int]:
    """Puts a text at the second parameter."""

    def act(_: int, place: Any) -> int:
        place._obj.value = text
        return 0

    return act


class Drawer:
    """A driver of devices that cannot be opened."""

    name = "cuda"

    def __init__(self, *devices: Device, broken: bool = False) -> None:
        self._devices, self._broken = devices, broken
        self.asked = 0

    def version(self) -> tuple[int, int]:
        return 12, 8

    def devices(self) -> Sequence[Device]:
        self.asked += 1
        if self._broken:
            raise GpuError("the device list is gone")
        return self._devices

    def open(self, index: int) -> Gpu:
        raise GpuError(f"opened {index}")
