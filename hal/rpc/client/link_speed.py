"""Measures the link to a daemon on another host."""

import os
import time
from typing import Final

from neurald._proto import device_pb2
from neurald.hal.device import Link
from neurald.hal.memory.pool import HostMemory
from neurald.hal.rpc.client.connection import Connection

_ROUND_TRIPS: Final = 4
#: The amounts of data that are sent and received, until that takes long enough to be measured.
_FIRST_BYTES: Final = 1 << 16
_MAX_BYTES: Final = 1 << 22
_GROWTH: Final = 4
_MIN_DURATION_S: Final = 0.02


def measure_link(connection: Connection, deadline_s: float | None = None) -> Link:
    """Returns the speed of a connection's link, which takes some round trips and megabytes at most.

    Args:
        connection: to a daemon on another host.
        deadline_s: by which it must be measured, on the clock of `time.monotonic()`.

    Raises:
        DeadObject: the daemon is gone.
        Error: the daemon refuses a call.
    """
    latency_s = min(_round_trip_s(connection, deadline_s) for _ in range(_ROUND_TRIPS))
    size_bytes = _FIRST_BYTES
    while True:
        # Noise, which no compression makes smaller.
        content, target = HostMemory(os.urandom(size_bytes)), HostMemory(bytearray(size_bytes))
        started = time.perf_counter()
        (token,) = connection.send_memories((content,), deadline_s)
        connection.read_memory(token, target, deadline_s)
        moving_s = max(1e-9, time.perf_counter() - started - 2 * latency_s)
        if moving_s >= _MIN_DURATION_S or size_bytes >= _MAX_BYTES:
            return Link(latency_s=latency_s, bytes_per_s=2 * size_bytes / moving_s)
        size_bytes *= _GROWTH


def _round_trip_s(connection: Connection, deadline_s: float | None) -> float:
    started = time.perf_counter()
    connection.call("GetStatus", device_pb2.GetStatusRequest(), deadline_s)
    return time.perf_counter() - started
