"""Sends the same request to an execution service again and again; a part of overload.py.

    python overload_client.py grpc|http ADDRESS FILE SEED

The file has the request as gRPC sends it or, for HTTP, the lines of its head that say how long it
is, an empty line and its body. Prints a line when it is ready. Each line of its standard input is
`closed CLIENTS LIMIT SECONDS`, for clients that wait for their answers, or `open RATE LIMIT
SECONDS`, for requests that arrive at random times, each with a limit in seconds. It is answered by
how many requests per second were answered in time, refused, and late.
"""

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeAlias

_OUTCOMES = ("good", "refused", "late")
#: For clients that wait for their answers.
_PATIENCE_S = 30.0
#: Makes one call with a limit in seconds, and returns its outcome.
Call: TypeAlias = Callable[[float], Coroutine[None, None, str]]


def grpc_call(address: str, request: bytes) -> Call:
    """Returns what makes a call of gRPC."""
    import grpc

    channel = grpc.aio.insecure_channel(address)
    method = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    codes = grpc.StatusCode
    outcomes = {
        codes.RESOURCE_EXHAUSTED: "refused",
        codes.DEADLINE_EXCEEDED: "late",
        codes.UNAVAILABLE: "late",
        codes.CANCELLED: "late",
    }

    async def call(limit_s: float) -> str:
        try:
            await method(request, timeout=limit_s)
        except grpc.aio.AioRpcError as error:
            if error.code() not in outcomes:
                raise
            return outcomes[error.code()]
        return "good"

    return call


def http_call(address: str, request: bytes) -> Call:
    """Returns what makes a call of HTTP, on a connection that no other call uses."""
    host, _, port = address.rpartition(":")
    lengths, _, body = request.partition(b"\r\n\r\n")
    outcomes = {200: "good", 503: "refused", 504: "late"}
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(limit_s: float) -> str:
        head = (
            f"POST /v2/models/same/infer HTTP/1.1\r\nHost: {address}\r\n"
            f"x-envoy-expected-rq-timeout-ms: {limit_s * 1000:.0f}\r\n"
        )
        writer = None
        is_kept = False
        try:
            async with asyncio.timeout(limit_s):
                reader, writer = idle.pop() if idle else await asyncio.open_connection(host, int(port))
                writer.write(head.encode() + lengths + b"\r\n\r\n" + body)
                status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
                fields = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
                answer = await reader.readexactly(int(fields["content-length"]))
            is_kept = fields.get("connection") != "close"
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            return "late"
        finally:
            if is_kept and writer is not None:
                idle.append((reader, writer))
            elif writer is not None:
                writer.close()
        code = int(status.split()[1])
        if code not in outcomes:
            raise RuntimeError(f"the service answers {status!r}: {answer[:200]!r}")
        return outcomes[code]

    return call


async def counted(call: Call, limit_s: float, counts: Counter[str]) -> None:
    """Makes a call, and counts its outcome; an answer behind the limit is late."""
    began = time.perf_counter()
    outcome = await call(limit_s)
    counts["late" if outcome == "good" and time.perf_counter() - began > limit_s else outcome] += 1


async def closed(call: Call, clients: int, seconds: float) -> list[float]:
    """Returns the outcomes per second for clients that wait for their answers."""
    counts: Counter[str] = Counter()
    began = time.perf_counter()

    async def repeat() -> None:
        while time.perf_counter() < began + seconds:
            await counted(call, _PATIENCE_S, counts)

    await asyncio.gather(*(repeat() for _ in range(clients)))
    took_s = time.perf_counter() - began
    return [counts[each] / took_s for each in _OUTCOMES]


async def opened(
    call: Call, rate: float, limit_s: float, seconds: float, chance: random.Random
) -> list[float]:
    """Returns the outcomes per second of requests at random times."""
    counts: Counter[str] = Counter()
    at = time.perf_counter()
    end = at + seconds
    calls: list[asyncio.Future[None]] = []
    while at < end:
        at += chance.expovariate(rate)
        await asyncio.sleep(max(0, at - time.perf_counter()))
        calls.append(asyncio.ensure_future(counted(call, limit_s, counts)))
    await asyncio.gather(*calls)
    # Answers that come when no more requests do are not counted as longer work.
    return [counts[each] / seconds for each in _OUTCOMES]


async def main() -> None:
    """Runs the program."""
    transport, address, path, seed = sys.argv[1:]
    request = await asyncio.to_thread(Path(path).read_bytes)
    call = (http_call if transport == "http" else grpc_call)(address, request)
    chance = random.Random(int(seed))  # noqa: S311
    print("ready", flush=True)  # noqa: T201
    while line := await asyncio.to_thread(sys.stdin.readline):
        way, amount, limit_s, seconds = line.split()
        if way == "closed":
            found = await closed(call, int(amount), float(seconds))
        else:
            found = await opened(call, float(amount), float(limit_s), float(seconds), chance)
        print(*found, flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
