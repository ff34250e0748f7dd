"""Headers that say how long a client waits."""

import pytest

from neurald.service.inference.server.http.time_limit import EXPECTED_MS, PREFER, time_limit_s


@pytest.mark.parametrize(
    ("headers", "limit_s"),
    [
        ({}, None),
        ({PREFER: b"wait=3"}, 3.0),
        ({PREFER: b'respond-async, WAIT = "10"; foo=bar'}, 10.0),
        ({PREFER: b"wait=0"}, 0.0),
        ({PREFER: b"wait=7, wait=5"}, 5.0),
        ({PREFER: b"wait"}, None),
        ({PREFER: b"wait=-1"}, None),
        ({PREFER: b"wait=1.5"}, None),
        ({PREFER: b"await=1, waits=2"}, None),
        ({PREFER: b"wait=" + b"9" * 400}, None),
        ({EXPECTED_MS: b"250"}, 0.25),
        ({EXPECTED_MS: b"0"}, None),
        ({EXPECTED_MS: b"soon"}, None),
        ({EXPECTED_MS: b"\xb2"}, None),
        ({EXPECTED_MS: b"9" * 400}, None),
        ({EXPECTED_MS: b"1500", PREFER: b"wait=1"}, 1.0),
    ],
)
def test_limits(headers: dict[bytes, bytes], limit_s: float | None) -> None:
    """Preferences that are not understood set no limit, as RFC 7240 asks."""
    assert time_limit_s(headers) == limit_s
