"""The processes that a test has started."""

import os
import threading
from pathlib import Path


def children(text: str) -> set[int]:
    """Returns the children of this process whose command line contains a text.

    Background threads of earlier tests start processes as well, and leave them to another thread of
    this process when they end. So all threads are asked, and the text tells the processes apart.
    """
    found = set[int]()
    for thread in Path("/proc/self/task").iterdir():
        try:
            numbers = (thread / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended
        found.update(int(number) for number in numbers if text in _command_line(int(number)))
    return found


def _command_line(process: int) -> str:
    """Returns the arguments of a process, separated by spaces, or "" if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def has_pidfds_of_threads() -> bool:
    """Returns whether the kernel tells the end of single threads, as Linux does since 6.9."""
    try:
        os.close(os.pidfd_open(threading.get_native_id(), os.O_EXCL))
    except OSError:
        return False
    return True
