"""One call of a tuned kernel: its arguments by name, its hooks, and what must be as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from skipjack.gpu.triton_compiler import compile_call
from skipjack.integrations.outcomes import GpuLostError

_NOT_ARGUMENTS = ("grid", "warmup")


class WrongResultError(Exception):
    """The user's post_hook found a result wrong."""


class TunedCall:
    """What a caller gave to a kernel whose `tuner` is Triton's autotuner, or derived from it."""

    def __init__(self, tuner: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.tuner = tuner
        self.args = args
        self.kwargs = dict(kwargs)
        self.kwargs.pop("warmup", None)
        self.by_position = dict(zip(tuner.arg_names, args, strict=False))
        self._copies: dict[str, Any] = {}

    @property
    def given(self) -> dict[str, Any]:
        """Everything the caller said, by name: arguments, constants, options of the launch."""
        both = {**self.by_position, **self.kwargs}
        return {name: value for name, value in both.items() if name not in _NOT_ARGUMENTS}

    @property
    def named(self) -> dict[str, Any]:
        """The kernel's own parameters among that."""
        names = self.tuner.arg_names
        # Every call of a kernel comes through here, and gives most of them by position.
        return self.by_position | {n: value for n, value in self.kwargs.items() if n in names}

    @property
    def key(self) -> tuple[Any, ...]:
        """As Triton's: the values named, and the types of all arguments that have one."""
        named = self.named
        values = [named[name] for name in self.tuner.keys if name in named]
        return (*values, *(str(v.dtype) for v in named.values() if hasattr(v, "dtype")))

    @property
    def name(self) -> str:
        """The kernel's."""
        return str(self.tuner.base_fn.__name__)

    def call_hook(self, config: Any) -> None:
        """The one of the config itself, if it has one."""
        if config.pre_hook is not None:
            config.pre_hook(self._full(config))

    def launch(self, config: Any) -> Any:
        """With this config."""
        return self.tuner.fn.run(*self.args, **self.kwargs, warmup=False, **config.all_kwargs())

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """Tensors to be restored hold their values again, those to be reset zeros."""
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
        """Bring the arguments into the state that they are compiled for."""
        if conflicts := self.kwargs.keys() & config.kwargs.keys():
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}. "
                "Make sure that you don't re-define auto-tuned symbols."
            )
        self.call_hook(config)  # it may set what the kernel is compiled for

    def compile(self, config: Any) -> Any:
        """The kernel that a launch would run; nothing is launched."""
        return compile_call(self.tuner.fn, *self.args, **self.kwargs, **config.all_kwargs())

    def before(self, config: Any) -> None:
        """Bring the arguments into the state that a launch expects."""
        self.call_hook(config)
        full = self._full(config)
        if self.tuner.user_defined_pre_hook:
            self.tuner.pre_hook(full)
            return
        self._zero(full)
        _restore(full, self._copies)

    def after(self, config: Any, error: Exception | None) -> None:
        """What the user wants done after a launch; a failed assertion says the result is wrong."""
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
