"""One call of a tuned kernel: its arguments and hooks, its identity, and the result of a config."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from skipjack.core import CALL_OPERATION, Device, Problem, Status, call_protocol
from skipjack.errors import SkipjackError
from skipjack.gpu import compile_call
from skipjack.integrations.triton.identity import digest, function_text, hook_text, value_text
from skipjack.integrations.triton.results import AutotunePlace
from skipjack.storage import is_shortage
from skipjack.tuning.calls import CallsLostError

# The outcome of trying a config, and whether the config caused it.
#
# A config that a compiler refuses will be refused again. A full disk or memory says nothing about a
# config: the outcome is an `ERROR`, and the config may be tried again.

_LONGEST_REASON = 500
_COMPILERS = ("CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct")
_OF_LAUNCHES = {
    "OutOfResources": Status.OUT_OF_MEMORY,
    "WrongResultError": Status.WRONG,
    "PTXASError": Status.BUILD_ERROR,
    **dict.fromkeys(_COMPILERS, Status.BUILD_ERROR),
}


class GpuLostError(CallsLostError):
    """A config broke the GPU's context; nothing can run on the GPU in this process any more."""


@dataclass(frozen=True, slots=True)
class ConfigOutcome:
    """The outcome of a build or of a run, without its result."""

    status: Status = Status.OK
    reason: str = ""
    seconds: float = 0.0


def failed_build(error: BaseException) -> ConfigOutcome:
    """The outcome of an error while compiling, caused by the config or by a lack of resources."""
    return ConfigOutcome(Status.ERROR if is_shortage(error) else Status.BUILD_ERROR, _reason(error))


def failed_launch(error: BaseException) -> ConfigOutcome:
    """The outcome of an error in a launch, which may have compiled first."""
    status = _OF_LAUNCHES.get(type(error).__name__, Status.ERROR)
    return ConfigOutcome(Status.ERROR if is_shortage(error) else status, _reason(error))


def _reason(error: BaseException) -> str:
    """The message of an error, with its type unless it is Skipjack's own."""
    named = str(error) if isinstance(error, SkipjackError) else f"{type(error).__name__}: {error}"
    return named[:_LONGEST_REASON]


# One call of a tuned kernel: its arguments by name, its hooks, and tensors to be restored.

_NOT_ARGUMENTS = ("grid", "warmup")


class WrongResultError(Exception):
    """The user's post_hook found that a result is wrong."""


class TunedCall:
    """The arguments of a call whose `tuner` is Triton's autotuner or derived from it."""

    def __init__(self, tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.tuner = tuner
        self.args = args
        self.kwargs = dict(kwargs)
        self.kwargs.pop("warmup", None)
        self.by_position = dict(zip(tuner.arg_names, args, strict=False))
        self._copies: dict[str, Any] = {}

    @property
    def given(self) -> dict[str, Any]:
        """All that the caller passed, by name: arguments, constants, launch options."""
        both = {**self.by_position, **self.kwargs}
        return {name: value for name, value in both.items() if name not in _NOT_ARGUMENTS}

    @property
    def named(self) -> dict[str, Any]:
        """The kernel's own parameters among these."""
        names = self.tuner.arg_names
        # Every call of a kernel runs this; most arguments are positional.
        return self.by_position | {n: value for n, value in self.kwargs.items() if n in names}

    @property
    def key(self) -> tuple[Any, ...]:
        """Triton's key: the values of the named arguments, and the dtypes of all that have one."""
        named = self.named
        values = [named[name] for name in self.tuner.keys if name in named]
        return (*values, *(str(v.dtype) for v in named.values() if hasattr(v, "dtype")))

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(self.tuner.base_fn.__name__)

    def call_hook(self, config: Any) -> None:
        """Call the config's own pre_hook, if it has one."""
        if config.pre_hook is not None:
            config.pre_hook(self._full(config))

    def launch(self, config: Any) -> Any:
        """Launch with this config."""
        return self.tuner.fn.run(*self.args, **self.kwargs, warmup=False, **config.all_kwargs())

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """Afterwards, restore tensors to their values, and set those to be reset to zero."""
        full = {**self.by_position, **self.kwargs}
        self._copies = {name: full[name].clone() for name in self.tuner.restore_value}
        lost = False
        try:
            yield
        except GpuLostError:
            lost = True
            raise
        finally:
            copies, self._copies = self._copies, {}
            if not lost:
                _restore(full, copies)
                self._reset(full)

    def _full(self, config: Any) -> dict[str, Any]:
        return {**self.by_position, **self.kwargs, **config.all_kwargs()}

    def ready(self, config: Any) -> None:
        """Prepare the arguments for a compilation."""
        if conflicts := self.kwargs.keys() & config.kwargs.keys():
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}. "
                "Make sure that you don't re-define auto-tuned symbols."
            )
        self.call_hook(config)  # it may set what the kernel is compiled for

    def compile(self, config: Any) -> Any:
        """Compile the kernel without a launch."""
        return compile_call(self.tuner.fn, *self.args, **self.kwargs, **config.all_kwargs())

    def before(self, config: Any) -> None:
        """Prepare the arguments for a launch."""
        self.call_hook(config)
        full = self._full(config)
        if self.tuner.user_defined_pre_hook:
            self.tuner.pre_hook(full)
            return
        self._zero(full)
        _restore(full, self._copies)

    def after(self, config: Any, error: Exception | None) -> None:
        """Call the user's post_hook after a launch; a failed assertion means a wrong result."""
        if self.tuner.user_defined_post_hook:
            try:
                self.tuner.post_hook(self._full(config), exception=error)
            except AssertionError as wrong:
                raise WrongResultError(str(wrong) or "post_hook refused the result") from wrong

    def _reset(self, full: dict[str, Any]) -> None:
        if self.tuner.user_defined_pre_hook:
            self.tuner.pre_hook(full, reset_only=True)
            return
        self._zero(full)

    def _zero(self, full: Mapping[str, Any]) -> None:
        for name in self.tuner.reset_to_zero:
            full[name].zero_()


def _restore(full: Mapping[str, Any], copies: Mapping[str, Any]) -> None:
    for name, copy in copies.items():
        full[name].copy_(copy)


# The identity of a tuned call in all processes: its function, arguments and device.

EARLIER_PROTOCOL = "gpu events around each launch; caches cleared before it; interleaved"
"""The name of `call_protocol` in earlier versions."""

Described = list[tuple[str, str]]


def place_of(call: TunedCall, benchmark: str = "") -> AutotunePlace:
    """The problem, device and protocol of a call; `SkipjackError` if there is no GPU.

    `benchmark` identifies the user's ``do_bench``, if any.
    """
    function: Any = call.tuner.fn
    heuristics: dict[str, str] = {}
    while not hasattr(function, "src"):  # heuristics around the function
        values: Mapping[str, Callable[..., object]] = getattr(function, "values", {})
        heuristics |= {f"heuristic {name}": hook_text(one) for name, one in values.items()}
        function = function.fn
    types = argument_types(function, call.named)
    known = dict(types)
    constants = {name: value for name, value in call.given.items() if name not in known}
    constants |= heuristics
    try:
        device = current_device()
    except RuntimeError as error:
        raise SkipjackError(
            f"kernel {function.__name__} cannot be tuned: Triton finds no GPU here ({error})"
        ) from error
    problem = problem_of(function, call.key, types, constants)
    earlier = f"do_bench {benchmark}" if benchmark else EARLIER_PROTOCOL
    return AutotunePlace(problem, device, call_protocol(benchmark), earlier)


def problem_of(
    function: Any, key: Sequence[Any], types: Described, constants: Mapping[str, Any]
) -> Problem:
    """The problem of a call; it changes with the source, types, constants and Triton's version."""
    arguments = json.dumps([types, {n: _text(v) for n, v in sorted(constants.items())}])
    values = ",".join(_text(value) for value in key) or "none"
    attributes = {
        "source": digest(function_text(function)),
        "arguments": digest(arguments),
        "key": values,
        "triton": metadata.version("triton"),
    }
    return Problem(CALL_OPERATION, (), "", tuple(attributes.items()), shape_text=function.__name__)


def argument_types(function: Any, named: Mapping[str, Any]) -> Described:
    """Type and divisibility of each run-time argument, as in Triton's own specialization."""
    return [
        (parameter.name, f"{_type(named[parameter.name])}{_divisibility(parameter, named)}")
        for parameter in function.params
        if parameter.name in named and not parameter.is_constexpr
    ]


def _type(value: Any) -> str:
    from triton.runtime.jit import mangle_type

    if hasattr(value, "block_shape"):
        # A config sets the block of a descriptor, so it may differ each time.
        return f"descriptor of {value.base.dtype} {len(value.block_shape)}"
    return str(mangle_type(value))


def _divisibility(parameter: Any, named: Mapping[str, Any]) -> str:
    value = named[parameter.name]
    if parameter.do_not_specialize:
        return ""
    if hasattr(value, "data_ptr"):
        return " /16" if value.data_ptr() % 16 == 0 else ""
    if isinstance(value, int) and not isinstance(value, bool):
        return " =1" if value == 1 else " /16" if value % 16 == 0 else ""
    return ""


def _text(value: Any) -> str:
    """A text for a value, the same in every process."""
    if hasattr(value, "src"):
        return digest(function_text(value))
    if isinstance(value, str):
        return value
    if (plain := value_text(value)) is not None:
        return plain
    if callable(value):
        return hook_text(value)
    text = str(value)
    # Python's default repr contains an address.
    return type(value).__qualname__ if text == object.__repr__(value) else text


def current_device() -> Device:
    """The GPU of a launch, with the properties that affect which config is best."""
    from triton.runtime import driver

    index = driver.active.get_current_device()
    target = driver.active.get_current_target()
    told = driver.active.utils.get_device_properties(index)
    speeds = [f"{name} {told.get(name, 0)}" for name in ("sm_clock_rate", "mem_clock_rate")]
    arch = f"sm_{target.arch}" if target.backend == "cuda" else str(target.arch).partition(":")[0]
    return Device(
        target.backend,
        arch,
        int(told.get("multiprocessor_count", 1)),
        model=", ".join([*speeds, f"bus {told.get('mem_bus_width', 0)}"]),
        caches=(("shared", int(told.get("max_shared_mem", 0))),),
        serial=str(index),
    )
