"""Building and verifying a kernel for a GPU beside a program, in processes of their own.

Triton is not loaded into the program for it, and a kernel that fails, which ends all work of its
process on the GPU, does the program no harm. Nothing is timed, so that the GPU is not locked.
"""

from __future__ import annotations

import hashlib
import time

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.protocol import gpu_protocol
from skipjack.core.trial import Candidate, Status
from skipjack.errors import SkipjackError
from skipjack.execute.build_pool import Build, BuildPool
from skipjack.execute.session import Loadable, RunSession
from skipjack.gpu.opening import gpu_name
from skipjack.native import cpu
from skipjack.runtime.kernel_code import KernelCode

_POLL_S = 1.0


def build_for_gpu(candidate: Candidate, device: Device) -> tuple[KernelCode, Build]:
    """The code of a config, and its build; `SkipjackError` says why there is none."""
    with BuildPool(1, device) as pool:
        pool.submit(candidate)
        deadline = time.monotonic() + 2 * pool.timeout_s
        while time.monotonic() < deadline:
            for build in pool.poll(_POLL_S):
                if build.status is not Status.OK or build.artifact is None:
                    raise SkipjackError(build.reason or f"its build is {build.status}")
                digest = hashlib.sha256(build.artifact).hexdigest()
                names = digest, build.symbol, build.abi
                return KernelCode(build.artifact, *names, build.slots), build
    raise SkipjackError("its build takes too long")


def fault_on_gpu(problem: Problem, code: KernelCode, slack: float, device: Device) -> str:
    """Why a kernel is not right, found by running it on random inputs; empty if it is."""
    loadable = Loadable(code.data, code.digest, code.symbol, code.abi, code.slots, slack=slack)
    with RunSession(gpu_protocol(), cpu.usable_cores(), gpu_name(device)) as session:
        session.prepare(problem)
        failure, _ = session.verify(session.add(loadable))
        return failure.reason if failure else ""
