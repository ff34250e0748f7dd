"""Runs a model by several clients at the same time."""

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from neurald.hal.errors import BadData
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.service.benchmark.durations import milliseconds
from neurald.service.console.measurement import RunControl, summarise

#: Maximum number of clients at the same time.
MAX_CLIENTS = 256


def client_counts(text: str) -> tuple[int, ...]:
    """Returns the numbers of clients in a text such as `1,2,4`.

    Raises:
        BadData: it has something else, or too large a number.
    """
    try:
        counts = tuple(int(each) for each in text.split(","))
    except ValueError:
        counts = ()
    if not counts or not all(1 <= count <= MAX_CLIENTS for count in counts):
        raise BadData(f"--clients is {text!r}; numbers from 1 to {MAX_CLIENTS} are expected, such as 1,2,4")
    return counts


def run_clients(
    create: Callable[[], Callable[[], float]],
    clients: int,
    control: RunControl,
    percentiles: Sequence[float] = (),
) -> dict[str, Any]:
    """Runs clients for some time.

    Args:
        create: returns a function that runs once and returns the duration in seconds; called for
            each client, in its thread.
        clients: their number.
        control: how often and how long they run together; each runs at least once.
        percentiles: those of the latencies that are returned, besides the usual ones.

    Returns:
        `clients`, the rate of all together, and the distribution of the latencies of each run.

    Raises:
        Error: of the first run that failed.
    """
    latencies: list[list[float]] = [[] for _ in range(clients)]
    errors: list[BaseException] = []
    barrier = threading.Barrier(clients + 1)
    ended: list[float] = []
    share = math.ceil(control.runs / clients)

    def serve(own: list[float]) -> None:
        try:
            run = create()
            run()
        except BaseException as error:
            errors.append(error)
            barrier.abort()
            return
        try:
            barrier.wait()
            start = time.monotonic()
            earliest, latest = start + control.min_s, start + control.max_s
            while not own or ((len(own) < share or start < earliest) and start <= latest):
                own.append(run())
                start = time.monotonic()
            ended.append(time.monotonic())
        except threading.BrokenBarrierError:
            return
        except BaseException as error:
            errors.append(error)

    threads = [CheckedThread(target=serve, args=(own,), name="benchmark client") for own in latencies]
    for thread in threads:
        thread.start()
    with suppress(threading.BrokenBarrierError):
        barrier.wait()
    start = time.monotonic()
    for thread in threads:
        thread.join()
    if errors:
        try:
            raise errors[0]
        finally:
            # The frames to which the error refers refer to the list.
            errors.clear()
    every = [each for own in latencies for each in own]
    elapsed_s = max(max(ended) - start, 1e-9)
    return {**summarise(every, percentiles), "clients": clients, "inferences_per_s": len(every) / elapsed_s}


def client_rows(found: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Returns the rows of a table: clients, rate, median, p90 and p99 of latencies in ms."""
    return [
        (
            str(each["clients"]),
            f"{each['inferences_per_s']:.1f}",
            *(milliseconds(each[f"{name}_ms"]) for name in ("median", "p90", "p99")),
        )
        for each in found
    ]
