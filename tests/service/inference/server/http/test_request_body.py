"""Bodies of requests that are large, slow, or too late."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from support.inference.http_requests import app_of, request_scope

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.server.http import request_body


@pytest.mark.parametrize(("part", "is_read"), [(bytes(10_000), True), (b"x", False)])
def test_bodies_that_are_too_large_are_received_as_long_as_they_come_fast(
    part: bytes, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "_DISCARD_S", 0.05)
    monkeypatch.setattr(request_body, "_DISCARDED_PER_S", 1000)
    sent: list[Any] = []
    left = [part] * 20

    async def receive() -> Any:
        if len(left) < 20:
            await asyncio.sleep(0.02)
        return {"type": "http.request", "body": left.pop(), "more_body": bool(left)}

    async def send(event: Any) -> None:
        sent.append(event)

    asyncio.run(app_of(None)(request_scope("infer", content_length=str(2 << 20)), receive, send))
    assert sent[0]["status"] == 400
    assert (not left) is is_read
    assert ((b"connection", b"close") not in sent[0]["headers"]) is is_read


@pytest.mark.parametrize(
    ("pause_s", "said"), [(0.0, b"bytes per second are expected"), (60.0, b"nothing of the request arrived")]
)
def test_bodies_that_do_not_come_or_trickle_are_given_up(
    pause_s: float, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes never end, so that only the limit does."""
    monkeypatch.setattr(request_body, "_BODY_S", 0.1)
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(pause_s)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(event: Any) -> None:
        sent.append(event)

    monkeypatch.setattr(request_body, "_MIN_BYTES_PER_S", 1 << 40)
    asyncio.run(app_of(None)(request_scope("infer"), receive, send))
    assert sent[0]["status"] == 504
    assert said in sent[1]["body"]
    assert (b"connection", b"close") in sent[0]["headers"]


def test_bodies_that_come_steadily_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "_BODY_S", 0.5)
    monkeypatch.setattr(request_body, "_MIN_BYTES_PER_S", 1)
    left = [b"[" * 1000] * 30

    async def receive() -> Any:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": left.pop(), "more_body": bool(left)}

    async def send(event: Any) -> None:
        sent.append(event)

    sent: list[Any] = []
    asyncio.run(app_of(None)(request_scope("infer"), receive, send))
    assert not left
    assert sent[0]["status"] == 400


@pytest.mark.parametrize("call", ["infer", "generate"])
def test_requests_that_would_be_late_are_refused_before_they_are_read(call: str) -> None:
    """The client's time counts from the head of its request on."""
    limits: list[float | None] = []
    sent: list[Any] = []
    left = [b"no JSON"] * 3

    class Version:
        loaded = SimpleNamespace(inputs=())

        def refusal(self, limit_s: float) -> ServiceError | None:
            limits.append(limit_s)
            return ServiceError(Status.EXHAUSTED, "too late")

    async def receive() -> Any:
        return {"type": "http.request", "body": left.pop(), "more_body": bool(left)}

    async def send(event: Any) -> None:
        sent.append(event)

    calls = SimpleNamespace(registry=SimpleNamespace(find=lambda model, version: Version()))
    scope = request_scope(call, prefer="wait=2")
    scope["headers"].append((b"prefer", b"respond-async"))
    asyncio.run(app_of(calls)(scope, receive, send))
    assert sent[0]["status"] == 503
    assert (b"connection", b"close") not in sent[0]["headers"]
    (limit_s,) = limits
    assert limit_s is not None
    assert 1 < limit_s <= 2
