"""A program that says in which check the process of the suite ended, or for how long it has waited.

A driver in the process of the suite may end that process or never return, and may keep the
interpreter while it does. Therefore another process says so. It imports nothing of neurald, to be
there at once.

Arguments: the number of the watched process, and the seconds after which a check takes long. Its
standard input has a line for each check that begins, and an empty one when the suite has ended.
"""

import os
import select
import signal
import sys
import time

#: How often it looks whether the watched process is there. The end of the pipe does not tell: a
#: process that the driver has started may have the pipe open.
_LOOK_S = 0.2


def main(parent: int, patience_s: float) -> None:
    """Watches the process until the suite or the process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    check, begun_s, told_s, unread = "", time.monotonic(), patience_s, b""
    while True:
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        received = os.read(0, 1 << 16) if readable else b""
        *lines, unread = (unread + received).split(b"\n")
        if lines:
            check, begun_s, told_s = lines[-1].decode(errors="replace"), time.monotonic(), patience_s
            if not check:
                return
        if os.getppid() != parent or (readable and not received):
            if check:
                _tell(f"the driver has ended the process in {check}")
            return
        if check and time.monotonic() - begun_s >= told_s:
            _tell(f"the driver has been busy for {told_s:.0f} s with {check}")
            told_s *= 2


def _tell(text: str) -> None:
    os.write(2, f"note: {text}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
