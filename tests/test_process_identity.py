"""Processes that have certainly ended, and those of which this cannot be known."""

import os
import subprocess
from dataclasses import replace

from skipjack.processes import ProcessIdentity, began, this_process


def test_this_process_is_not_gone() -> None:
    assert this_process() == this_process()
    assert not this_process().gone


def test_one_that_ended_is_gone_even_before_its_parent_asks() -> None:
    child = subprocess.Popen(["sleep", "600"])
    mark = replace(this_process(), pid=child.pid, began=began(child.pid))
    assert not mark.gone
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert mark.gone
    child.wait()
    assert mark.gone


def test_another_process_with_the_same_id_is_another_one() -> None:
    assert replace(this_process(), began="1").gone


def test_nothing_is_known_of_other_machines_boots_and_containers() -> None:
    dead = replace(this_process(), began="1")
    assert not replace(dead, host="another").gone
    assert not replace(dead, boot="another").gone
    assert not ProcessIdentity(dead.host, dead.pid).gone


def test_one_of_which_only_the_id_is_known_counts_as_alive() -> None:
    assert not replace(this_process(), pid=1, began="").gone
