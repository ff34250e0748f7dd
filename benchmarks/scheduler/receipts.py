"""Compares the receipts of 100,000 executions with the counters of the daemons that ran them.

PYTHONPATH=src:tests python benchmarks/scheduler/receipts.py [RUNS]
"""

import sys
import time

from support.traces.receipt_counts import counted


def main() -> int:
    """Prints both counts; fails if they differ."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    begun = time.perf_counter()
    found, daemons, failed = counted(runs, threads=4)
    print(f"{runs} executions, {failed} of them late, {time.perf_counter() - begun:.0f} s")  # noqa: T201
    for name, count in daemons.items():
        print(f"{name}: {found[name]} in receipts, {count} in the daemon")  # noqa: T201
    return int(any(found[name] != count for name, count in daemons.items()))


if __name__ == "__main__":
    sys.exit(main())
