"""Makes connections of this host as slow as those of a network."""

import contextlib
import os
import socket
import threading
import time

#: Python has no name for it.
_SO_MAX_PACING_RATE = 47
_LOOK_S = 0.1


def pace(one: socket.socket, bytes_per_s: int) -> None:
    """Limits how fast a TCP socket sends."""
    one.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, bytes_per_s)


def pace_all(bytes_per_s: int) -> None:
    """Limits how fast each TCP socket of this process sends, which is soon noticed of new ones."""
    threading.Thread(target=_pace_all, args=(bytes_per_s,), daemon=True).start()


def _pace_all(bytes_per_s: int) -> None:
    known: set[str] = set()
    while True:
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names only
            with contextlib.suppress(OSError):  # it is closed
                target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
                if target.startswith("socket:") and target not in known:
                    with socket.socket(fileno=os.dup(int(name))) as one:
                        if one.family in (socket.AF_INET, socket.AF_INET6):
                            pace(one, bytes_per_s)
                    known.add(target)
        time.sleep(_LOOK_S)
