import asyncio

import pytest

from neurald.hal.errors import BadData, BadState
from neurald.service.telemetry.endpoint import MetricsEndpoint, metrics_address


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def answers(*requests: bytes) -> list[bytes]:
    async def run() -> list[bytes]:
        async with MetricsEndpoint(("127.0.0.1", 0), lambda: "a 1\n") as endpoint:
            return [await ask(endpoint.port, each) for each in requests]

    return asyncio.run(run())


def test_metrics_are_served() -> None:
    found, again, head, other, post, long = answers(
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics?x=1 HTTP/1.0\r\n\r\n",
        b"HEAD /metrics HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n",
    )
    for answer in (found, again):
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\na 1\n")
        assert b"text/plain; version=0.0.4" in answer
    assert head.endswith(b"\r\n\r\n")
    assert other.startswith(b"HTTP/1.1 404")
    assert post.startswith(b"HTTP/1.1 405")
    assert long.startswith(b"HTTP/1.1 431")


def test_a_client_that_ends_early_is_forgotten() -> None:
    async def run() -> bytes:
        async with MetricsEndpoint(("127.0.0.1", 0), lambda: "a 1\n") as endpoint:
            for _ in range(20):
                _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
                writer.write(b"GET")
                writer.close()
                await writer.wait_closed()
            await asyncio.sleep(0.1)
            return await ask(endpoint.port, b"GET /metrics HTTP/1.1\r\n\r\n")

    assert asyncio.run(run()).startswith(b"HTTP/1.1 200")


def test_addresses() -> None:
    assert metrics_address("127.0.0.1:9464") == ("127.0.0.1", 9464)
    assert metrics_address(":80") == ("127.0.0.1", 80)
    assert metrics_address("[::1]:0") == ("::1", 0)
    with pytest.raises(BadData, match="served to this host only"):
        metrics_address("0.0.0.0:9464")
    for text in ("", "x", "localhost:80", "127.0.0.1:x", "127.0.0.1:70000"):
        with pytest.raises(BadData, match="is not an address"):
            metrics_address(text)


def test_an_address_that_is_taken() -> None:
    async def run() -> None:
        async with (
            MetricsEndpoint(("127.0.0.1", 0), str) as first,
            MetricsEndpoint(("127.0.0.1", first.port), str),
        ):
            pass

    with pytest.raises(BadState, match="metrics cannot be served at"):
        asyncio.run(run())
