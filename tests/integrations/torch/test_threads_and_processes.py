"""The hook beside threads, forked processes, and other libraries that override kernels."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skipjack.integrations.torch.hook import existing_hook
from skipjack.native.cpu import usable_cores

torch = pytest.importorskip("torch")

from hooked_calls import ForcedHook, run_program  # noqa: E402

HOOKED = (
    *("mm", "bmm", "addmm", "baddbmm", "convolution", "convolution_backward"),
    *("_softmax", "native_layer_norm", "native_batch_norm"),
)


def kernels() -> list[str]:
    """What PyTorch's dispatcher says about each operation."""
    return [torch._C._dispatch_dump(f"aten::{name}") for name in HOOKED]


# Threads


def test_threads_that_meet_a_call_for_the_first_time_get_the_same_result(
    forced: ForcedHook,
) -> None:
    a, b = torch.randn(24, 40), torch.randn(40, 16)
    wanted = forced.plainly(lambda: a @ b)
    start = threading.Barrier(8)

    def work(_: int) -> Any:
        start.wait()
        return [a @ b for _ in range(20)]

    def run() -> list[Any]:
        with ThreadPoolExecutor(8) as threads:
            return [one for each in threads.map(work, range(8)) for one in each]

    found, ours, theirs = forced.counted(run)
    for one in found:
        torch.testing.assert_close(one, wanted, rtol=1e-4, atol=1e-4)
    assert ours["aten::mm"] + theirs["aten::mm"] == 160
    _, ours, theirs = forced.counted(run)
    assert ours["aten::mm"] == 160 and not theirs


def test_kernels_that_borrow_memory_run_in_several_threads_at_once(forced: ForcedHook) -> None:
    layers = [torch.nn.Conv2d(8, 16, 3, padding=1) for _ in range(4)]
    images = [torch.randn(2, 8, 12, 12) for _ in layers]
    wanted = forced.plainly(lambda: [layer(x) for layer, x in zip(layers, images, strict=True)])
    layers[0](images[0])

    def work(number: int) -> list[Any]:
        return [layers[number](images[number]) for _ in range(30)]

    def run() -> list[list[Any]]:
        with ThreadPoolExecutor(4) as threads:
            return list(threads.map(work, range(4)))

    found, ours, _ = forced.counted(run)
    assert ours["aten::convolution"] == 120
    for each, one in zip(found, wanted, strict=True):
        for result in each:
            torch.testing.assert_close(result, one, rtol=1e-4, atol=1e-4)


def test_a_backward_pass_in_another_thread_does_not_wait_for_this_one(forced: ForcedHook) -> None:
    """The main thread waits for it without running Python, but lets go of the interpreter."""
    weight, x = torch.randn(20, 8, requires_grad=True), torch.randn(12, 20)

    def work() -> Any:
        return torch.autograd.grad((x @ weight).square().sum(), weight)[0]

    def run() -> Any:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(work).result(timeout=60)

    found, ours, _ = forced.counted(run)
    assert ours["aten::mm"] == 2
    torch.testing.assert_close(found, forced.plainly(work), rtol=1e-4, atol=1e-4)


def test_a_thread_that_disables_the_hook_stops_nobody(forced: ForcedHook) -> None:
    a, b = torch.randn(12, 20), torch.randn(20, 8)
    wanted = forced.plainly(lambda: a @ b)
    done = threading.Event()

    def work() -> int:
        count = 0
        while not done.is_set():
            torch.testing.assert_close(a @ b, wanted, rtol=1e-4, atol=1e-4)
            count += 1
        return count

    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(work) for _ in range(2)]
        for _ in range(15):
            forced.disable()
            forced.enable()
        done.set()
        assert all(one.result(timeout=60) for one in running)


def test_an_interrupt_within_a_backward_pass_reaches_the_program(
    forced: ForcedHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = torch.randn(6, 10, requires_grad=True)
    b = torch.randn(10, 14, requires_grad=True)
    loss = (a @ b).sum()

    def interrupted(words: tuple[int, ...]) -> int:
        raise KeyboardInterrupt

    # The first product of the pass meets it, and Python has it pending when the second one asks.
    monkeypatch.setattr(existing_hook(), "_decided", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loss.backward()
        threading.Event().wait(0.1)
    monkeypatch.undo()
    assert forced.counted(lambda: a @ b)[1]["aten::mm"] == 1


def test_a_search_that_goes_on_when_the_hook_is_disabled_is_asked_about_later(
    forced: ForcedHook,
) -> None:
    hook = existing_hook()
    assert hook is not None
    a, b = torch.randn(6, 18), torch.randn(18, 22)
    assert forced.counted(lambda: a @ b)[1]["aten::mm"] == 1
    (words,) = [words for words, one in hook.decisions.items() if "18x22" in one.description]
    hook.decisions[words] = replace(hook.decisions[words], is_final=False)
    hook.table.entries[words].torch()
    forced.disable()
    forced.enable()
    assert forced.counted(lambda: a @ b)[1]["aten::mm"] == 1


def test_the_number_of_threads_is_part_of_the_key(forced: ForcedHook) -> None:
    if len(usable_cores()) < 2:
        pytest.skip("one core")
    a, b = torch.randn(96, 64), torch.randn(64, 96)
    wanted = forced.plainly(lambda: a @ b)
    for threads in (1, 2, 1):
        torch.set_num_threads(threads)
        torch.testing.assert_close(a @ b, wanted, rtol=1e-4, atol=1e-4)
    found = forced.devices("aten::mm", "96x64")
    assert sorted(name.rpartition("/")[2] for name in found) == ["1", "2"]


# Forked processes


class Squares(torch.utils.data.Dataset):  # type: ignore[misc]
    """Each item is a product, made where it is asked for."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        a = torch.full((16, 16), float(index))
        hits = ForcedHook.hits()
        product = a @ a
        return float(product[0, 0]), index, os.getpid(), ForcedHook.hits() - hits


@pytest.mark.parametrize("seen", [True, False])
def test_workers_of_a_data_loader_use_the_kernels_of_their_parent(
    forced: ForcedHook, seen: bool
) -> None:
    """Or build their own, if it has not seen such a call."""
    a = torch.ones(16, 16)
    if seen:
        a @ a
    # Numbers, not tensors: those travel by a socket in a directory that a test may have moved.
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
    )
    products, numbers, pids, hits = zip(*loader, strict=True)
    assert list(products) == [16.0 * number**2 for number in numbers]
    assert os.getpid() not in pids and len(set(pids)) == 2
    assert hits == (1,) * 8
    assert forced.counted(lambda: a @ a)[1]["aten::mm"] == 1


def in_child(compute: Callable[[], bool]) -> bool:
    """Whether something holds in a forked process that ends at once."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if compute() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_that_is_forked_while_a_call_is_decided_is_not_stuck(
    forced: ForcedHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that decides does not exist in the child."""
    from skipjack.integrations.torch.selection import call_chooser

    a, b = torch.randn(12, 20), torch.randn(20, 8)
    wanted = forced.plainly(lambda: a @ b)
    deciding, go_on = threading.Event(), threading.Event()
    choose = call_chooser.CallChooser.choose

    def slowly(self: Any, *arguments: Any) -> Any:
        deciding.set()
        go_on.wait(60)
        return choose(self, *arguments)

    monkeypatch.setattr(call_chooser.CallChooser, "choose", slowly)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(lambda: a @ b)
        assert deciding.wait(60)

        def compute() -> bool:
            go_on.set()
            return bool(torch.allclose(a @ b, wanted, atol=1e-4))

        assert in_child(compute)
        go_on.set()
        torch.testing.assert_close(first.result(timeout=60), wanted, rtol=1e-4, atol=1e-4)


def test_a_child_can_disable_the_hook_for_itself(forced: ForcedHook) -> None:
    a, b = torch.randn(12, 20), torch.randn(20, 8)
    wanted = forced.plainly(lambda: a @ b)
    a @ b

    def compute() -> bool:
        forced.disable()
        return torch.equal(a @ b, wanted)

    assert in_child(compute)
    assert forced.counted(lambda: a @ b)[1]["aten::mm"] == 1


# Other libraries, and undoing


@pytest.fixture
def other_library() -> Iterator[Callable[[], Any]]:
    """Puts a kernel of its own under PyTorch's product, as PyTorch itself does on GPUs."""
    libraries = []

    def install() -> None:
        library = torch.library.Library("aten", "IMPL")
        libraries.append(library)

        def product(a: Any, b: Any) -> Any:
            return torch.full((a.shape[0], b.shape[1]), 7.0)

        library.impl("mm", product, "CPU", allow_override=True)

    yield install
    for library in libraries:
        library._destroy()


def test_a_kernel_of_another_library_is_left_in_its_place(
    forced: ForcedHook, other_library: Callable[[], Any]
) -> None:
    a, b = torch.randn(12, 20), torch.randn(20, 8)
    forced.disable()
    other_library()
    forced.enable()
    found, ours, theirs = forced.counted(lambda: a @ b)
    assert (found == 7.0).all() and not ours and not theirs
    batch = a.expand(3, 12, 20).contiguous()
    _, ours, _ = forced.counted(lambda: torch.bmm(batch, batch.mT.contiguous()))
    assert ours["aten::bmm"] == 1
    forced.disable()
    assert (a @ b == 7.0).all()


def test_a_library_that_comes_later_has_the_last_word(
    forced: ForcedHook, other_library: Callable[[], Any]
) -> None:
    a, b = torch.randn(12, 20), torch.randn(20, 8)
    other_library()
    assert (a @ b == 7.0).all()
    forced.disable()
    assert (a @ b == 7.0).all()


def test_what_is_undone_leaves_no_trace(forced: ForcedHook) -> None:
    forced.disable()
    before = kernels()
    for _ in range(3):
        forced.enable()
        assert kernels() != before
        forced.disable()
        assert kernels() == before


def test_the_kernel_that_is_fallen_back_on_is_the_one_that_was_there(forced: ForcedHook) -> None:
    """A miss is PyTorch's own kernel to the bit, however often the hook came and went."""
    a, b = torch.randn(12, 20)[:, ::2], torch.randn(10, 8)
    wanted = forced.plainly(lambda: a @ b)
    for _ in range(3):
        forced.disable()
        forced.enable()
        found, ours, theirs = forced.counted(lambda: a @ b)
        assert torch.equal(found, wanted) and not ours and theirs["aten::mm"] == 1


AT_EXIT = """
    import atexit, sys, threading, torch

    a, b = torch.ones(12, 20), torch.ones(20, 8)

    def last():
        assert torch.equal(a @ b, torch.full((12, 8), 20.0))
        print("last")

    class Late:
        def __del__(self):
            a @ b
            sys.stdout.write("later\\n")

    atexit.register(last)                 # runs after the hook is gone
    import skipjack.torch
    skipjack.integrations.torch.activation.enable(force=True)
    late = Late()
    a @ b                                 # decided here: PyTorch's own kernel runs meanwhile
    thread = threading.Thread(target=lambda: [a @ b for _ in range(2000)])
    thread.start()                        # Python waits for it before it ends
    a @ b
    print(skipjack.integrations.torch.activation.report().hits > 0)
"""


@pytest.mark.long
def test_a_program_ends_as_without_the_hook(tmp_path: Path) -> None:
    done = run_program(AT_EXIT, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nlast\nlater\n", "")
