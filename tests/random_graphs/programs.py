"""Compares random programs, in several ways, with the references.

    .venv/bin/python tests/random_graphs/programs.py --first 100000 --count 4000 --seconds 3600
    .venv/bin/python tests/random_graphs/programs.py --lengths --first 100000 --count 4000
    .venv/bin/python tests/random_graphs/programs.py --executions --first 100000 --count 400

Programs nest loops and branches, exit early, take no turn at all, and let lists grow; they run
compiled as a whole, and with some of their operations on another device. With `--lengths`, the
lengths of their tensors follow from data; they run on the first tier, too. With `--executions`,
such programs run in all ways in which executions can, also by a daemon. Each program is determined
by its number.
"""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def _ways(stack: ExitStack, *, lengths: bool, executions: bool) -> Mapping[str, Callable[[int], str]]:
    """Returns what compares a program, by the way in which it runs.

    Args:
        stack: ends the daemon.
        lengths, executions: what runs.
    """
    from random_graphs.data_programs import WAYS, data_mismatch
    from random_graphs.execution_ways import PLACES, execution_mismatch
    from random_graphs.loop_programs import mismatch_of
    from support.daemon.processes import running_daemon

    import neurald as nd

    if executions:
        daemon = nd.connect(stack.enter_context(running_daemon()))
        places = {place: daemon if place == "daemon" else None for place in PLACES}
        return {
            place: partial(execution_mismatch, place=place, daemon=device) for place, device in places.items()
        }
    if lengths:
        return {way: partial(data_mismatch, way=way) for way in WAYS}
    return {
        "compiled": partial(mismatch_of, is_split=False),
        "split": partial(mismatch_of, is_split=True),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit")
    parser.add_argument("--executions", action="store_true", help="the same in all ways of executing")
    parser.add_argument("--lengths", action="store_true", help="programs whose lengths follow from data")
    arguments = parser.parse_args()
    os.environ.update(NEURALD_AUTOSTART="0", NEURALD_POLICY="android")
    with ExitStack() as stack:
        ways = _ways(stack, lengths=arguments.lengths, executions=arguments.executions)
        return _compare(ways, arguments)


def _compare(ways: Mapping[str, Callable[[int], str]], arguments: argparse.Namespace) -> int:
    """Compares programs and tells what it finds; returns the exit status."""
    end_s, failed, done = time.monotonic() + arguments.seconds, 0, 0
    for seed in range(arguments.first, arguments.first + arguments.count):
        if time.monotonic() > end_s:
            break
        for way, mismatch in ways.items():
            try:
                found = mismatch(seed)
            except Exception:
                found = traceback.format_exc(limit=-3)
            if found:
                failed += 1
                print(f"program {seed}, {way}: {found}", flush=True)
        done += 1
        if done % 50 == 0:
            print(f"{done} programs, {failed} findings", flush=True)
    print(f"{done} programs, {failed} findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
