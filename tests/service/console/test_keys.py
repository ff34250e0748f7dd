"""Keys of a terminal, and standard inputs that are none."""

import os
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from neurald.service.console.keys import pressed, single_keys


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Makes a terminal the standard input; returns the descriptor that types into it."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "r", closefd=True) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield ours
    os.close(ours)


def test_a_key_ends_the_wait_at_once(keyboard: int) -> None:
    with single_keys():
        os.write(keyboard, b"xq")
        assert pressed("q", 60)


def test_other_keys_do_not(keyboard: int) -> None:
    with single_keys():
        os.write(keyboard, b"x")
        began = time.monotonic()
        assert not pressed("q", 0.2)
        assert time.monotonic() >= began + 0.2


def test_the_terminal_is_as_it_was(keyboard: int) -> None:
    before = termios.tcgetattr(sys.stdin)
    with single_keys():
        assert termios.tcgetattr(sys.stdin) != before
    assert termios.tcgetattr(sys.stdin) == before


def test_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with single_keys():
            assert not pressed("q", 0.05)
