"""Measures the link to a daemon on another host: the time of a call, and how fast data moves.

Bursts of data go to the daemon and come back. What a burst takes whatever its size, which is the
time of one without data worth mentioning, is not part of the speed of the link. Of several bursts
of one size the fastest counts, since others were disturbed, or widened the windows of TCP.
"""

import contextlib
import os
import time
from typing import Final

from neurald._proto import device_pb2
from neurald.hal.device import Link
from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.memory.pool import HostMemory
from neurald.hal.rpc.client.connection import Connection

#: How often a call and a burst of each size are repeated, and from which round trip on they are
#: not.
_REPEATS: Final = 3
_LONG_TRIP_S: Final = 0.1
#: The sizes of bursts, which grow until their data alone takes this long, and half of a round trip.
_TINY_BYTES: Final = 1 << 6
_FIRST_BYTES: Final = 1 << 14
_MAX_BYTES: Final = 1 << 22
_GROWTH: Final = 4
_MIN_DURATION_S: Final = 0.02
#: How long all bursts may take, in seconds and in round trips: what would exceed it is not sent.
_BUDGET_S: Final = 0.4
_BUDGET_TRIPS: Final = 24
_MAX_BUDGET_S: Final = 1.5
#: The least share of a burst's time that its data takes; less cannot be told from disturbances.
_MIN_SHARE: Final = 0.05


def measure_link(connection: Connection, deadline_s: float | None = None) -> Link:
    """Returns the speed of a connection's link, which takes some megabytes and a second at most.

    Only on links with round trips of more than 50 ms, or of less than 100 KB/s, it takes longer.

    Args:
        connection: the connection to a daemon on another host.
        deadline_s: the time by which it must be measured, on the clock of
            `time.monotonic()`.

    Raises:
        DeadObject: the daemon is gone.
        MissedDeadlineTransient: the deadline has passed before a burst of 16 KiB arrived.
        Error: the daemon refuses a call.
    """
    latency_s = _round_trip_s(connection, deadline_s)
    repeats = 1 if latency_s > _LONG_TRIP_S else _REPEATS
    latency_s = min(latency_s, *(_round_trip_s(connection, deadline_s) for _ in range(repeats)))
    end_s = time.perf_counter() + min(_MAX_BUDGET_S, _BUDGET_S + _BUDGET_TRIPS * latency_s)
    fixed_s = _fastest_s(connection, _TINY_BYTES, repeats, end_s, deadline_s)
    size_bytes = _FIRST_BYTES
    moving_s = _moving_s(fixed_s, _fastest_s(connection, size_bytes, repeats, end_s, deadline_s))
    while (
        moving_s < max(_MIN_DURATION_S, latency_s / 2)
        and size_bytes < _MAX_BYTES
        and time.perf_counter() + fixed_s + _GROWTH * moving_s < end_s
    ):
        try:
            burst_s = _fastest_s(connection, _GROWTH * size_bytes, repeats, end_s, deadline_s)
        except MissedDeadlineTransient:  # what was measured before counts
            break
        size_bytes *= _GROWTH
        moving_s = _moving_s(fixed_s, burst_s)
    return Link(latency_s=latency_s, bytes_per_s=2 * size_bytes / moving_s)


def _moving_s(fixed_s: float, burst_s: float) -> float:
    """Returns the part of a burst's time in which its data moves."""
    return max(_MIN_SHARE * burst_s, burst_s - fixed_s)


def _fastest_s(
    connection: Connection, size_bytes: int, repeats: int, end_s: float, deadline_s: float | None
) -> float:
    """Returns how long the fastest of some bursts takes there and back; two, unless one is enough.

    Raises:
        Error: not even one arrives; see `measure_link`.
    """
    # Noise, which no compression makes smaller.
    content, target = HostMemory(os.urandom(size_bytes)), HostMemory(bytearray(size_bytes))
    fastest_s = _burst_s(connection, content, target, deadline_s)
    for number in range(1, repeats):
        if number > 1 and time.perf_counter() + fastest_s > end_s:
            break
        with contextlib.suppress(MissedDeadlineTransient):
            fastest_s = min(fastest_s, _burst_s(connection, content, target, deadline_s))
    return fastest_s


def _burst_s(
    connection: Connection, content: HostMemory, target: HostMemory, deadline_s: float | None
) -> float:
    started = time.perf_counter()
    (token,) = connection.send_memories((content,), deadline_s)
    connection.read_memory(token, target, deadline_s)
    return time.perf_counter() - started


def _round_trip_s(connection: Connection, deadline_s: float | None) -> float:
    started = time.perf_counter()
    connection.call("GetStatus", device_pb2.GetStatusRequest(), deadline_s)
    return time.perf_counter() - started
