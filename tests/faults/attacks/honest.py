"""Honest client that calls at a steady pace and measures latencies."""

import statistics
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from support.models.addition import addition, request

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.rpc.client.device import connect

#: Period of the calls in each way. A late call delays those after it, and each latency counts from
#: the due time: a user of the application perceives it so.
_PERIOD_S = 0.005
#: Minimum ratio of the period to the duration of a call, for slow calls such as those on TCP, which
#: are three gRPC calls each: an honest client asks for no more than the daemon can do for it alone.
_ROOM = 4.0
_SHAPE = (16,)
_WARM_CALLS = 50


class Latencies:
    """Latencies of calls.

    Args:
        seconds: the latency of each call.
    """

    def __init__(self, seconds: list[float]) -> None:
        self._sorted = sorted(seconds)

    def percentile(self, share: float) -> float:
        """Returns a percentile in milliseconds."""
        if not self._sorted:
            return float("nan")
        position = min(len(self._sorted) - 1, int(len(self._sorted) * share / 100))
        return 1e3 * self._sorted[position]

    def with_those_of(self, other: "Latencies") -> "Latencies":
        """Returns these and the other latencies together."""
        return Latencies(self._sorted + other._sorted)

    def __len__(self) -> int:
        return len(self._sorted)


class Honest:
    """Client with a prepared model and a burst. `failures` lists its failures.

    Args:
        address: of the daemon.
        token_file: the file with the daemon's token, if it requires one.
    """

    def __init__(self, address: str, token_file: Path | None = None) -> None:
        self.device = connect(address, token_file=token_file)
        self._constant = np.arange(_SHAPE[0], dtype=np.float32)
        self._prepared = self.device.prepare_model(addition(self._constant), PrepareOptions())
        self._burst = self._prepared.create_burst()
        self.failures: list[str] = []
        options = ExecuteOptions()
        self._ways: Mapping[str, Callable[[object], object]] = {
            "calls": lambda bound: self._prepared.execute(bound, options),  # type: ignore[arg-type]
            "bursts": lambda bound: self._burst.execute(bound, options),  # type: ignore[arg-type]
        }
        taken_s = [each for way in self._ways for each in self._call(way, _WARM_CALLS, 0.0)]
        self._period_s = max(_PERIOD_S, _ROOM * statistics.median(taken_s)) if taken_s else _PERIOD_S

    def measure(self, seconds: float) -> dict[str, Latencies]:
        """Calls in all ways concurrently; returns the latencies of each."""
        latencies: dict[str, list[float]] = {}

        def call(way: str) -> None:
            latencies[way] = self._call(way, max(1, int(seconds / self._period_s)), self._period_s)

        threads = [threading.Thread(target=call, args=(way,)) for way in self._ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {way: Latencies(latencies.get(way, [])) for way in self._ways}

    def _call(self, way: str, count: int, period_s: float) -> list[float]:
        values, result = np.zeros(_SHAPE, np.float32), np.empty(_SHAPE, np.float32)
        bound = request(values, result)
        latencies: list[float] = []
        began = time.monotonic()
        for number in range(count):
            due = began + number * period_s if period_s else time.monotonic()
            time.sleep(max(0.0, due - time.monotonic()))
            values[:] = number
            try:
                self._ways[way](bound)
            except Error as error:
                self.failures.append(f"{way}: {error.code.name}: {error}")
                return latencies
            latencies.append(time.monotonic() - due)
            if not np.array_equal(result, values + self._constant):
                self.failures.append(f"{way}: {result[0]}; {number} is right")
                return latencies
            if time.monotonic() - began > count * period_s + _MOST_BEHIND_S:
                self.failures.append(f"{way}: {count - number} calls are not done {_MOST_BEHIND_S} s late")
                return latencies
        return latencies

    def close(self) -> None:
        """Disconnects."""
        self._burst.close()
        self.device.close()


#: A daemon that lags this far behind counts as dead.
_MOST_BEHIND_S = 30.0
