"""What it costs to find what is known: in a program, again in the same program, and in a bank.

Three parts in one run: what a program waits for and what calls cost (`lookup_program`), answers
that are remembered beside what else remembers (`lookup_remembered`), and the bank beside other
stored results (`lookup_stored`).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import lookup_program
import lookup_remembered
import lookup_stored
import machine
from skipjack.native import cpu

SIZES = (1, 1_000, 100_000)
QUICK_SIZES = (1, 100)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="at most 100 entries, few rounds")
    parser.add_argument("--json", type=Path, help="write the result here")
    args = parser.parse_args(arguments)
    quick = args.quick
    sizes = QUICK_SIZES if quick else SIZES
    result = lookup_program.measure((sizes[0], sizes[-1]), lookup_stored.entry)
    print(*lookup_program.lines(result), "", sep="\n", flush=True)
    known = lookup_program.known_entry(lookup_program.KEY)
    result["remembered"] = lookup_remembered.measure(known, 10 if quick else 60)
    print(*lookup_remembered.lines(result["remembered"]), "", sep="\n", flush=True)
    result["stored"] = lookup_stored.measure(sizes, 5 if quick else 40)
    print(*lookup_stored.lines(result["stored"]), sep="\n")
    if args.json or not quick:
        device = cpu.detect()
        path = args.json or machine.RESULTS / f"lookup_{device.arch}.json"
        header = machine.header("lookup", device, sorted(os.sched_getaffinity(0)))
        machine.write_result(path, header | result)


if __name__ == "__main__":
    main()
