"""Reads from its headers how long a request over HTTP may take."""

import re
from collections.abc import Mapping
from typing import Final

#: A preference of RFC 7240: how many seconds the client waits. A preference that is not understood
#: is ignored, as the RFC asks.
PREFER: Final = b"prefer"
_WAIT: Final = re.compile(rb'\s*wait\s*=\s*"?([0-9]{1,9})"?\s*(?:;.*)?', re.IGNORECASE)
#: What Envoy, the proxy of Istio and KServe, tells a server: after how many milliseconds it gives
#: up.
EXPECTED_MS: Final = b"x-envoy-expected-rq-timeout-ms"


def time_limit_s(headers: Mapping[bytes, bytes]) -> float | None:
    """Returns for how long anybody waits for the answer; None if the headers do not say.

    Args:
        headers: by their names in lower case.
    """
    limits: list[float] = []
    milliseconds = headers.get(EXPECTED_MS, b"")
    if milliseconds.isdigit() and len(milliseconds) <= 12 and int(milliseconds):
        limits.append(int(milliseconds) / 1e3)
    for preference in headers.get(PREFER, b"").split(b","):
        match = _WAIT.fullmatch(preference)
        if match is not None:
            limits.append(float(match.group(1)))
    return min(limits, default=None)
