"""Compares random programs of loops and branches, compiled and split, with the references.

    .venv/bin/python tests/random_graphs/loops.py --first 100000 --count 4000 --seconds 3600

Programs nest loops and branches, exit early, take no turn at all, and let lists grow. Each one is
determined by its number; it runs compiled as a whole and with some of its operations on another
device.
"""

import argparse
import os
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit")
    arguments = parser.parse_args()
    os.environ.update(NEURALD_AUTOSTART="0", NEURALD_POLICY="android")
    from random_graphs.loop_programs import mismatch_of

    end_s, failed, done = time.monotonic() + arguments.seconds, 0, 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        if time.monotonic() > end_s:
            break
        for is_split in (False, True):
            try:
                found = mismatch_of(seed, is_split=is_split)
            except Exception:
                found = traceback.format_exc(limit=-3)
            if found:
                failed += 1
                print(f"program {seed}{', split' * is_split}: {found}", flush=True)
        done += 1
        if done % 50 == 0:
            print(f"{done} programs, {failed} findings", flush=True)
    print(f"{done} programs, {failed} findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
