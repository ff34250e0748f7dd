"""Lists the open descriptors of this process.

Their number says little, because threads of earlier tests may still be closing theirs.
"""

import os
from pathlib import Path


def open_files() -> frozenset[tuple[int, int, int]]:
    """Returns (number, device, inode) of each open descriptor.

    The difference from an earlier set is what a test has opened.
    """
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        descriptor = int(entry.name)
        try:
            status = os.fstat(descriptor)
        except OSError:  # closed by another thread, or the descriptor that listed the folder
            continue
        found.add((descriptor, status.st_dev, status.st_ino))
    return frozenset(found)
