"""Log lines: whatever is in a message, it neither begins a line nor steers a terminal."""

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.sweeps import sweep

from neurald.service.logs.choices import NOTICE, LogLevel
from neurald.service.logs.formatters import (
    JournalFormatter,
    JsonFormatter,
    TextFormatter,
    priority,
    split_priority,
)

FORMATTERS: tuple[type[logging.Formatter], ...] = (TextFormatter, JsonFormatter, JournalFormatter)
#: What a client may put into a name: line breaks of all kinds, escape sequences, a carriage return,
#: marks that change the direction of writing, invisible characters and lone surrogates.
HOSTILE = (
    "\n<0>kernel: panic",
    "\r2026-01-01 00:00:00 ERROR root: forged",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\u202egnp.exe\u202c",
    "\u2066\u2069\u200b\ufeff",
    "\u2028\u2029\x85\x0b\x0c\x1c",
    "\x00\x7f",
    "\ud800",
)


def record(
    message: str, *values: object, level: int = logging.WARNING, exception: Any = None, driver: str = ""
) -> logging.LogRecord:
    made = logging.LogRecord("neurald.hal", level, __file__, 1, message, values, exception)
    if driver:
        made.driver = driver
    return made


def raised(text: str) -> Any:
    try:
        raise ValueError(text)
    except ValueError:
        return sys.exc_info()


@sweep("formatter", FORMATTERS, ids=lambda each: each.__name__)
@sweep("text", HOSTILE, ids=ascii)
@sweep("place", ["value", "message", "exception", "driver"])
def test_hostile_text_does_not_forge_lines(
    formatter: Callable[[], logging.Formatter], text: str, place: str
) -> None:
    made = {
        "value": lambda: record("a client named %s was refused", text),
        "message": lambda: record(text),
        "exception": lambda: record("it failed", exception=raised(text)),
        "driver": lambda: record("it stops", driver=text),
    }[place]()
    lines = formatter().format(made).split("\n")
    for number, line in enumerate(lines):
        assert line.isprintable()
        assert line.encode()
        if formatter is JournalFormatter:
            assert line.startswith("<4>")
            line = line.removeprefix("<4>")
        if number:
            assert line.startswith("    "), "a line that is part of a message is indented"
    if place != "exception" or formatter is JsonFormatter:
        assert len(lines) == 1


def test_text_has_time_level_and_logger() -> None:
    line = TextFormatter().format(record("the queue has %d entries", 3))
    assert line.endswith(" WARNING neurald.hal: the queue has 3 entries")
    assert line[:2] == "20"
    assert TextFormatter().format(record("serving", level=NOTICE)) == "serving"
    assert TextFormatter().format(record("it stops", level=NOTICE, driver="gpu")) == "gpu: it stops"


def test_json_is_one_object_a_line() -> None:
    document = json.loads(
        JsonFormatter().format(record("größer", exception=raised("one\ntwo"), driver="gpu", level=NOTICE))
    )
    assert document["message"] == "größer"
    assert (document["level"], document["logger"], document["driver"]) == ("notice", "neurald.hal", "gpu")
    assert document["time"].endswith("+00:00")
    assert document["traceback"][-2:] == ["ValueError: one", "two"]
    assert "traceback" not in json.loads(JsonFormatter().format(record("fine")))


@sweep(
    ("level", "expected"),
    [("debug", 7), ("info", 6), ("notice", 5), ("warning", 4), ("error", 3)],
)
def test_levels_survive_the_way_through_a_pipe(level: str, expected: int) -> None:
    number = LogLevel(level).number
    assert priority(number) == expected
    line = JournalFormatter().format(record("it works", level=number))
    assert split_priority(line, logging.ERROR)[0] == number
    assert split_priority(line, logging.ERROR)[1].endswith("it works")


def test_lines_without_a_level() -> None:
    assert split_priority("<8>text", logging.INFO) == (logging.INFO, "<8>text")
    assert split_priority("text <3>", logging.INFO) == (logging.INFO, "text <3>")
    assert split_priority("<0>text", logging.INFO) == (logging.CRITICAL, "text")
    assert priority(logging.CRITICAL) == 2


def test_levels_that_others_define_are_shown() -> None:
    assert " Level 33 " in TextFormatter().format(record("x", level=33))


def test_nothing_else_is_a_level() -> None:
    with pytest.raises(ValueError, match="loud"):
        LogLevel("loud")
