"""The benchmark of overload counts both transports' answers in time, refusals and late answers."""

import asyncio
import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "service"
LENGTHS = b"Content-Length: 4"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Imports the program with the clients."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("overload_client")
    sys.modules.pop("overload_client", None)


class Server:
    """Answers requests over HTTP by what is in a list, one after the other, and then keeps silent.

    It closes a connection in place of an answer that is empty.
    """

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                assert await reader.readexactly(4) == b"body"
                if self.answers:
                    content = self.answers.pop(0)
                    if not content:
                        break
                    writer.write(content)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


def answer(status: str, *lines: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", "Content-Length: 2", *lines, "", "{}")).encode()


def outcomes(client: ModuleType, server: Server, count: int, limit_s: float = 60) -> list[str]:
    async def run() -> list[str]:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        async with listener:
            host, port = listener.sockets[0].getsockname()
            call = client.http_call(f"{host}:{port}", LENGTHS + b"\r\n\r\nbody")
            return [await call(limit_s) for _ in range(count)]

    return asyncio.run(run())


def test_answers_of_http(client: ModuleType) -> None:
    server = Server(answer("200 OK"), answer("503 Busy", "Connection: close"), answer("504 Late"))
    assert outcomes(client, server, 3) == ["good", "refused", "late"]
    assert server.connections == 2, "those that stay open are used again"
    for head in server.heads:
        assert b"\r\nx-envoy-expected-rq-timeout-ms: 60000\r\n" in head
        assert LENGTHS in head
    with pytest.raises(RuntimeError, match="400 no such model"):
        outcomes(client, Server(answer("400 no such model")), 1)


def test_answers_that_do_not_come_are_late(client: ModuleType) -> None:
    assert outcomes(client, Server(), 1, limit_s=0.05) == ["late"]
    server = Server(b"", answer("200 OK"))
    assert outcomes(client, server, 2) == ["late", "good"]
    assert server.connections == 2


def test_answers_behind_the_limit_are_late(client: ModuleType) -> None:
    async def call(limit_s: float) -> str:
        return "refused" if limit_s == 1 else "good"

    counts: Counter[str] = Counter()
    for limit_s in (0, 1, 60):
        asyncio.run(client.counted(call, limit_s, counts))
    assert counts == {"late": 1, "refused": 1, "good": 1}


@pytest.mark.full
@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_a_short_run(tmp_path: Path, transport: str) -> None:
    file = tmp_path / "overload.json"
    command = [sys.executable, str(FOLDER / "overload.py"), *["--http"] * (transport == "http")]
    done = subprocess.run(
        [*command, "--seconds", "0.5", "--turns", "1", "--deadlines", "1", "--json", str(file)],
        env={**os.environ, "NEURALD_AUTOSTART": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert file.exists(), done.stderr
    result = json.loads(file.read_text())
    assert ("over HTTP" in result["title"]) == (transport == "http")
    (table,) = result["tables"]
    names = [column["name"] for column in table["columns"]]
    (row,) = (dict(zip(names, row, strict=True)) for row in table["rows"])
    assert row["deadline"] == "1"
    assert row["capacity"] > 0
    assert row["share"] == pytest.approx(row["good"] / row["capacity"])
