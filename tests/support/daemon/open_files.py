"""Which descriptors of this process are open. How many there are says little: threads of earlier tests still close theirs."""

import os
from pathlib import Path


def open_files() -> frozenset[tuple[int, int, int]]:
    """A number, device and inode for each open descriptor. What a test has opened is the difference from an earlier set."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        descriptor = int(entry.name)
        try:
            status = os.fstat(descriptor)
        except OSError:  # the one that listed the folder, or one that another thread has closed
            continue
        found.add((descriptor, status.st_dev, status.st_ino))
    return frozenset(found)
