"""Waits for keys."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator

#: A closed standard input is always readable, and nobody is at the keyboard.
_NOTHING = b""


@contextlib.contextmanager
def single_keys() -> Iterator[None]:
    """Lets a terminal pass on each key at once, and show none, during the block."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def pressed(wanted: str, seconds: float) -> bool:
    """Waits this long; returns True at once if a certain key is pressed."""
    end_s = time.monotonic() + seconds
    is_open = sys.stdin.isatty()
    while (left_s := end_s - time.monotonic()) > 0:
        if not is_open:
            time.sleep(left_s)
            break
        if select.select([sys.stdin], [], [], left_s)[0]:
            keys = os.read(sys.stdin.fileno(), 64)
            is_open = keys != _NOTHING
            if wanted.encode() in keys:
                return True
    return False
