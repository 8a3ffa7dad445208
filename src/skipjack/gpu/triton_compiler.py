"""The only caller of Triton's compiler, for kernels of solvers and for users' calls of kernels.

A source is compiled for a GPU that need not be present, and leaves no files. A call is compiled for
the GPU of this process, into Triton's cache, where its launch finds it; Triton determines what to
compile from the types and values of the call's arguments. Exceptions and output of the compiler
become a `GpuBuildError` of one sentence.

Triton is imported when something is compiled: artifacts of other machines run without it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from skipjack.errors import SkipjackError

Compilation = Callable[[], Any]
"""Returns Triton's compiled kernel."""

_LONGEST = 300
_LONGEST_OUTPUT = 1 << 20
_DIAGNOSTIC = re.compile(r"(?:^|: )error:\s*(.+)|^(LLVM ERROR: .+)", re.MULTILINE)
_ASSEMBLER = re.compile(r"^ptxas .*?(?:error|fatal)\s*:\s*(.+)$", re.MULTILINE)


class GpuBuildError(SkipjackError):
    """A kernel that cannot be built; the message becomes the reason of its trial."""


def compile_source(
    function: Any,
    signature: Mapping[str, str],
    constants: Mapping[tuple[int, ...], Any],
    attributes: Mapping[tuple[int, ...], Any],
    target: tuple[str, str | int, int],
    options: Mapping[str, Any],
) -> Any:
    """Compile a kernel with these types and constants; a target is backend, arch, warp size."""

    def compilation() -> Any:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        source = ASTSource(function, dict(signature), dict(constants), dict(attributes))
        with _own_cache(), contextlib.redirect_stdout(io.StringIO()):
            return triton.compile(source, target=GPUTarget(*target), options=dict(options))

    return explained(compilation)


def compile_call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Compile the kernel that a call would launch, unless it is cached; nothing is launched.

    Within `collected_calls` it is not compiled, but added to the collected compilations.
    """
    return function.warmup(*args, **kwargs)


def can_collect() -> bool:
    """Whether this version of Triton can collect compilations, and processes can fork."""
    import triton

    return hasattr(triton, "AsyncCompileMode") and hasattr(os, "fork")


class CollectedCalls(Executor):
    """Compilations of calls. Each is first run in another process, to fill Triton's cache."""

    def __init__(self) -> None:
        self.compilations: list[Compilation] = []
        self._futures: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Called by Triton; nothing is compiled yet."""
        self.compilations.append(partial(explained, partial(fn, *args, **kwargs)))
        self._futures.append(Future())
        return self._futures[-1]

    def add(self, call: Callable[[], Any]) -> int | None:
        """The number of a call's compilation; None if this process already has its kernel."""
        future = getattr(call(), "future", None)
        return self._futures.index(future) if future in self._futures else None

    def finish(self, number: int, failure: str = "") -> None:
        """Load a compilation's kernel from Triton's cache; with `failure`, mark it as failed."""
        future = self._futures[number]
        try:
            if failure:
                future.set_exception(GpuBuildError(failure))
            else:
                future.set_result(self.compilations[number]())
        except Exception as error:
            future.set_exception(error)
            raise

    def give_up(self, error: BaseException) -> None:
        """Mark all unfinished compilations as failed."""
        for future in self._futures:
            if not future.done():
                future.set_exception(error)


@contextlib.contextmanager
def collected_calls() -> Iterator[CollectedCalls]:
    """Collect the compilations of `compile_call`; `finish` all of them within the context."""
    import triton

    collected = CollectedCalls()
    with triton.AsyncCompileMode(collected, ignore_errors=True):
        try:
            yield collected
        except BaseException as error:
            collected.give_up(error)  # leaving Triton's mode would wait for them
            raise


def explained(compilation: Compilation) -> Any:
    """Compile; exceptions of Triton become a `GpuBuildError` with the reason in one sentence."""
    output = _CompilerOutput()
    try:
        return compilation()
    except SkipjackError:
        raise
    except Exception as error:
        raise GpuBuildError(_explain(error, output)) from error


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    """Redirect Triton's cache to a temporary folder, since Skipjack stores its own artifacts.

    Temporary files go there, too, because Triton leaves some behind if the assembler fails. Line
    numbers are omitted, because they would make machine code depend on the path of a file.
    """
    from triton import knobs

    with (
        tempfile.TemporaryDirectory(prefix="skipjack-triton-") as folder,
        knobs.cache.scope(),
        knobs.compilation.scope(),
    ):
        knobs.cache.dir = folder
        knobs.compilation.disable_line_info = True
        knobs.compilation.always_compile = True
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            yield
        finally:
            tempfile.tempdir = before


# Why a build failed


class _CompilerOutput:
    """What the compiler writes to standard error from now on, if that is a file.

    Failing passes raise an exception without a reason and print the reason. In a build worker
    standard error is a file, which can be read without redirecting it.
    """

    def __init__(self) -> None:
        self._start = self._size()

    def text(self) -> str:
        """The output so far."""
        length = min(_LONGEST_OUTPUT, self._size() - self._start)
        if length <= 0:
            return ""
        try:
            return os.pread(2, length, self._start).decode(errors="replace")
        except OSError:
            return ""  # opened for writing only

    @staticmethod
    def _size() -> int:
        try:
            status = os.fstat(2)
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _explain(error: BaseException, output: _CompilerOutput) -> str:
    """Why a build failed, in one line: the innermost message, without source code."""
    chain = _chain(error)
    deepest = chain[-1]
    text = getattr(deepest, "error_message", None) or str(deepest)
    if found := _ASSEMBLER.search(text):
        text = f"ptxas: {found[1]}"
    elif type(deepest) is RuntimeError and (diagnostic := _DIAGNOSTIC.search(output.text())):
        text = diagnostic[1] or diagnostic[2]
    line = _first_line(text)
    name = type(deepest).__name__
    named = line if not line or getattr(deepest, "error_message", None) else f"{name}: {line}"
    where = _line_of(chain)
    return f"{named or name}{where}"[:_LONGEST]


def _chain(error: BaseException) -> list[BaseException]:
    """Triton wraps an error once for each call between the kernel and the cause."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    return chain


def _line_of(chain: list[BaseException]) -> str:
    """The line of the error, counted from the function's first line as in Triton."""
    nodes = [getattr(error, "node", None) for error in reversed(chain)]
    number = next(filter(None, (getattr(node, "lineno", None) for node in nodes)), None)
    return f" (line {number} of its function)" if number else ""


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""
