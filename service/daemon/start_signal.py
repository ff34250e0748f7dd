"""The word at which a process that has loaded its driver opens the device.

A service manager starts processes before it needs them: loading takes much longer than the rest of
a start. The word comes through standard input, whose end tells the process that it is not needed.
"""

import sys
from typing import Final

BEGIN: Final = b"begin\n"


def is_to_begin() -> bool:
    """Waits for the word; returns False if standard input ends without it."""
    return sys.stdin.buffer.readline(len(BEGIN)) == BEGIN
