"""Tells a client's load balancer how busy this service is, in a header of an answer.

The header is that of ORCA (Open Request Cost Aggregation): a client asks for it with the header
`endpoint-load-metrics-format`, as it does with Triton, whose reports are of language models only.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from neurald.service.inference.models.served_version import ServedVersion
from neurald.service.inference.server.http.host_usage import HostUsage

#: The header that asks for a report, with its form, `json` or `text`; and the header of a report.
LOAD_FORMAT: Final = b"endpoint-load-metrics-format"
LOAD_REPORT: Final = b"endpoint-load-metrics"
#: Rates of less time say little.
_MIN_INTERVAL_S: Final = 1.0
_DIGITS: Final = 6


class _Counts(NamedTuple):
    """The number of requests that have ended until a time, and of those among them that failed."""

    read_s: float
    ended: int
    failed: int


class EndpointLoad:
    """Reports the load of this service again and again.

    Args:
        host: the usage of the host.
        clock: returns seconds, as `time.monotonic` does.
    """

    def __init__(self, host: HostUsage, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
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
        self._count(versions)
        load = {
            name: round(value, _DIGITS)
            for name, value in (
                ("cpu_utilization", self._host.utilization()),
                ("mem_utilization", self._host.memory_utilization()),
                ("rps_fractional", self._ended_per_s),
                ("eps", self._failed_per_s),
            )
            if value is not None
        }
        named = {"pending_request_count": sum(each.waiting for each in versions)}
        if form == b"json":
            return b"JSON " + msgspec.json.encode({**load, "named_metrics": named})
        values = {**load, **{f"named_metrics.{name}": value for name, value in named.items()}}
        return b"TEXT " + ", ".join(f"{name}={value}" for name, value in values.items()).encode()

    def _count(self, versions: Sequence[ServedVersion]) -> None:
        """Computes the rates since the last time that is long enough ago."""
        now_s = self._clock()
        before = self._counts
        took_s = now_s - before.read_s
        if took_s < _MIN_INTERVAL_S:
            return
        failed = sum(each.statistics.failure.count + each.statistics.refused for each in versions)
        ended = failed + sum(each.statistics.success.count for each in versions)
        # The counts of models that are not served any more are gone.
        self._ended_per_s = max(0, ended - before.ended) / took_s
        self._failed_per_s = max(0, failed - before.failed) / took_s
        self._counts = _Counts(now_s, ended, failed)
