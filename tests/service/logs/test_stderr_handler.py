"""A log whose reader is slow, stops, or has no room."""

import io
import json
import logging
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from neurald.service.logs import stderr_handler
from neurald.service.logs.formatters import JsonFormatter
from neurald.service.logs.stderr_handler import StderrHandler


def logged(handler: logging.Handler, text: str) -> None:
    handler.handle(logging.LogRecord("a", logging.INFO, __file__, 1, text, None, None))


def handler_of(stream: TextIO) -> StderrHandler:
    handler = StderrHandler(stream)
    handler.setFormatter(JsonFormatter())
    return handler


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        yield reader, stream
    os.close(reader)


def read(reader: int) -> list[str]:
    """Returns what is in a pipe, as lines."""
    found = b""
    while select.select([reader], [], [], 0)[0]:
        found += os.read(reader, 1 << 16)
    return found.decode().splitlines()


def test_every_line_arrives_whole_while_somebody_reads(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    handler = handler_of(stream)
    for text in ("first", "x" * 20_000, "größe"):
        logged(handler, text)
    assert [json.loads(line)["message"] for line in read(reader)] == ["first", "x" * 20_000, "größe"]


@pytest.mark.parametrize("length", [10, 6_000])
def test_nobody_waits_for_a_reader_that_has_stopped(pipe: tuple[int, TextIO], length: int) -> None:
    reader, stream = pipe
    handler = handler_of(stream)
    began = time.monotonic()
    for number in range(5_000):
        logged(handler, f"{number} " + "x" * length)
    assert time.monotonic() - began < 20
    lines = read(reader)
    assert 0 < len(lines) < 5_000
    logged(handler, "again")
    *_, note, last = (json.loads(line) for line in read(reader) if line.endswith("}"))
    assert note["message"].endswith("lines of the log left out, which nothing was reading")
    assert last["message"] == "again"
    left_out = int(note["message"].split()[0])
    # Of a long line, a part may have been written.
    assert left_out + len(lines) - 5_000 in (0, 1)


@pytest.mark.forks
def test_a_reader_may_be_slow(pipe: tuple[int, TextIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr_handler, "_PATIENCE_MS", 30_000)
    reader, stream = pipe
    handler = handler_of(stream)
    child = os.fork()
    if not child:
        for number in range(3_000):
            logged(handler, f"{number} " + "x" * 100)
        os._exit(0)
    stream.close()
    found = b""
    while part := os.read(reader, 1 << 12):
        found += part
        time.sleep(0.001)
    os.waitpid(child, 0)
    assert [int(json.loads(line)["message"].split()[0]) for line in found.splitlines()] == list(range(3_000))


def test_nothing_is_left_for_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would end with status 120 if text remained that cannot be written."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with Path("/dev/full").open("w", encoding="ascii") as stream:
        logged(handler_of(stream), "line")
        stream.flush()


def test_a_stream_without_a_descriptor() -> None:
    stream = io.StringIO()
    logged(handler_of(stream), "line")
    assert json.loads(stream.getvalue())["message"] == "line"
