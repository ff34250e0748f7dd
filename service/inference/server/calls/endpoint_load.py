"""Tells a client's load balancer how busy this service is, beside an answer.

The report is that of ORCA (Open Request Cost Aggregation), in a header of HTTP or the trailing
metadata of gRPC. A client asks for it with the header or metadata `endpoint-load-metrics-format`,
as it does with Triton, whose reports are of language models over HTTP only.
"""

import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from neurald.service.inference.models.served_version import ServedVersion
from neurald.service.inference.server.calls.host_usage import HostUsage

#: The header that asks for a report, with its form, `json` or `text`; and the header of a report.
LOAD_FORMAT: Final = "endpoint-load-metrics-format"
LOAD_REPORT: Final = "endpoint-load-metrics"
#: The metadata of a report in the form `bin`, which is a message OrcaLoadReport.
LOAD_MESSAGE: Final = "endpoint-load-metrics-bin"
BINARY: Final = b"bin"
#: Rates of less time say little.
_MIN_INTERVAL_S: Final = 1.0
_DIGITS: Final = 6
#: The numbers of the fields of an OrcaLoadReport; a named metric is a message with a name and a
#: value. No name has more than 127 bytes.
_FIELDS: Final = {"cpu_utilization": 1, "mem_utilization": 2, "rps_fractional": 6, "eps": 7}
_NAMED_METRICS: Final = 8
_NAME, _VALUE = 1, 2
#: The kinds of fields in their tags.
_FIXED_64, _LENGTH = 1, 2


class _Counts(NamedTuple):
    """The number of requests that have ended until a time, and of those among them that failed."""

    read_s: float
    ended: int
    failed: int


class EndpointLoad:
    """Reports the load of this service again and again. Any thread may ask for a report.

    Args:
        host: the usage of the host.
        clock: returns seconds, as `time.monotonic` does.
    """

    def __init__(self, host: HostUsage, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = _Counts(clock(), 0, 0)
        self._ended_per_s = self._failed_per_s = 0.0

    def report(self, form: bytes, versions: Sequence[ServedVersion]) -> bytes | None:
        """Returns the value of the header; None if it is asked for in another form.

        Args:
            form: the form that the client wants, `json` or `text`.
            versions: all versions of models that are served.
        """
        if form not in (b"json", b"text"):
            return None
        load, named = self._values(versions)
        if form == b"json":
            return b"JSON " + msgspec.json.encode({**load, "named_metrics": named})
        values = {**load, **{f"named_metrics.{name}": value for name, value in named.items()}}
        return b"TEXT " + ", ".join(f"{name}={value}" for name, value in values.items()).encode()

    def message(self, versions: Sequence[ServedVersion]) -> bytes:
        """Returns the report as a message OrcaLoadReport.

        Args:
            versions: see `report`.
        """
        load, named = self._values(versions)
        parts = [_double(_FIELDS[name], value) for name, value in load.items()]
        for name, value in named.items():
            entry = _bytes(_NAME, name.encode()) + _double(_VALUE, value)
            parts.append(_bytes(_NAMED_METRICS, entry))
        return b"".join(parts)

    def _values(self, versions: Sequence[ServedVersion]) -> tuple[dict[str, float], dict[str, int]]:
        """Returns what a report says, and its named metrics."""
        ended_per_s, failed_per_s = self._rates(versions)
        load = {
            name: round(value, _DIGITS)
            for name, value in (
                ("cpu_utilization", self._host.utilization()),
                ("mem_utilization", self._host.memory_utilization()),
                ("rps_fractional", ended_per_s),
                ("eps", failed_per_s),
            )
            if value is not None
        }
        return load, {"pending_request_count": sum(each.waiting for each in versions)}

    def _rates(self, versions: Sequence[ServedVersion]) -> tuple[float, float]:
        """Returns how many requests end and fail per second, since a time long enough ago."""
        now_s = self._clock()
        failed = sum(each.statistics.failure.count + each.statistics.refused for each in versions)
        ended = failed + sum(each.statistics.success.count for each in versions)
        with self._lock:
            before = self._counts
            took_s = now_s - before.read_s
            if took_s >= _MIN_INTERVAL_S:
                # The counts of models that are not served any more are gone.
                self._ended_per_s = max(0, ended - before.ended) / took_s
                self._failed_per_s = max(0, failed - before.failed) / took_s
                self._counts = _Counts(now_s, ended, failed)
            return self._ended_per_s, self._failed_per_s


def _double(number: int, value: float) -> bytes:
    """Returns a field of a message with a number of type double."""
    return struct.pack("<Bd", number << 3 | _FIXED_64, value)


def _bytes(number: int, content: bytes) -> bytes:
    """Returns a field of a message with a string or a message, of at most 127 bytes."""
    return bytes((number << 3 | _LENGTH, len(content))) + content
