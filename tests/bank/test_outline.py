"""The problems of a bank, read by several threads and by forked processes."""

import os
import signal
from pathlib import Path

import pytest

from skipjack.bank.layers import OutlineFile


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_while_another_thread_reads_can_read(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    path.write_text('{"device":"cpu","problem":"add:8:f32"}\n')
    file = OutlineFile(path)
    assert file.get().families
    with file._reading:  # as a thread does that the child does not have
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if file.get().families else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
