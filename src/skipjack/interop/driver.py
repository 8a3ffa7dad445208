"""Commands of MIOpenDriver as problems.

A command stands for one problem or several: ``-F 0``, which is also the default, runs a
convolution in all three directions. What the driver can run and kernels here cannot is
`NotApplicable`; what the driver would refuse is a `ProblemError`. Defaults are the driver's own,
not those of our keys.
"""

from __future__ import annotations

from difflib import get_close_matches

from skipjack.core.problem import shown
from skipjack.errors import ProblemError
from skipjack.interop.defaults import NOTHING_ASKED, Defaults
from skipjack.interop.driver_batchnorm import read_batchnorm
from skipjack.interop.driver_conv import read_conv
from skipjack.interop.driver_flags import (
    BATCHNORM,
    BATCHNORM_DTYPES,
    CONV,
    CONV_DTYPES,
    GEMM,
    GEMM_DTYPES,
    OTHER_BASES,
    POOL_DTYPES,
)
from skipjack.interop.driver_gemm import read_gemm
from skipjack.interop.driver_pool import pool_flags, read_pool
from skipjack.interop.driver_values import read_values
from skipjack.interop.driver_words import find_command
from skipjack.interop.not_applicable import Entry, NotApplicable

BASES = (*CONV_DTYPES, *BATCHNORM_DTYPES, *GEMM_DTYPES, *POOL_DTYPES)


def parse_driver(text: str, defaults: Defaults = NOTHING_ASKED) -> tuple[Entry, ...]:
    """All that a line stands for, in the order in which the driver would run it.

    Free text before the word that ends with ``MIOpenDriver``, quotes and a comment do not matter.
    Of a flag that is given twice the last one counts, as it does for the driver. `defaults` fill in
    what the line leaves open; one that says something else raises `ProblemError`.
    """
    command = find_command(text)
    base, where = command.base, shown(command.text)
    if base in CONV_DTYPES:
        return read_conv(base, read_values(command.words, CONV, where), defaults)
    if base in BATCHNORM_DTYPES:
        return read_batchnorm(base, read_values(command.words, BATCHNORM, where), defaults)
    if base in GEMM_DTYPES:
        return read_gemm(base, read_values(command.words, GEMM, where), defaults)
    if base in POOL_DTYPES:
        flags = pool_flags(command.words)
        return read_pool(base, read_values(command.words, flags, where), defaults)
    if base in OTHER_BASES:
        return (NotApplicable(command.text, f"no kernel here computes {base} of MIOpenDriver"),)
    close = get_close_matches(shown(base), (*BASES, *OTHER_BASES), 1)
    hint = f"did you mean {close[0]}?" if close else "it runs conv, bnorm, gemm, pool and others"
    raise ProblemError(f"command {where!r}: MIOpenDriver has no base {shown(base)!r}; {hint}")
