"""The trace that a header names, and headers that name none."""

import pytest

from neurald.service.inference.protocol.trace_context import trace_id_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header", [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00", f"01-{TRACE}-{PARENT}-01-more"]
)
def test_the_trace_of_a_header(header: str) -> None:
    assert trace_id_of(header.encode()) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        TRACE,
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        f"00-{TRACE}-{PARENT}-01, 00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-1",
        "<script>",
    ],
)
def test_other_headers_are_ignored(header: str) -> None:
    assert not trace_id_of(header.encode())
