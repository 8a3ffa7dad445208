"""What a config did wrong is held against it; what the machine lacked is not."""

import errno
import os

import pytest

from skipjack.core import Status
from skipjack.integrations.triton.tuned_call import failed_build, failed_launch


class CompilationError(Exception):
    """Of Triton's, by its name."""


class PTXASError(Exception):
    """Of Triton's, by its name."""


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        MemoryError(),
        caused(CompilationError("at 3:4"), OSError(errno.EMFILE, "Too many open files")),
        PTXASError("ptxas fatal: could not write: No space left on device"),
    ],
)
def test_a_machine_without_room_says_nothing_about_a_config(error: Exception) -> None:
    assert failed_build(error).status is Status.ERROR
    assert failed_launch(error).status is Status.ERROR


@pytest.mark.parametrize("error", [CompilationError("at 3:4"), PTXASError("too many registers")])
def test_what_the_compiler_refuses_stays_refused(error: Exception) -> None:
    assert failed_build(error).status is Status.BUILD_ERROR
    assert failed_launch(error).status is Status.BUILD_ERROR


def test_any_other_error_is_the_compilers_when_building_and_nobodys_when_launching() -> None:
    assert failed_build(AssertionError("tile")).status is Status.BUILD_ERROR
    assert failed_launch(RuntimeError("CUDA out of memory")).status is Status.ERROR
    assert failed_launch(RuntimeError("x" * 9000)).reason.startswith("RuntimeError: xxx")
    assert len(failed_launch(RuntimeError("x" * 9000)).reason) < 1000
