"""Lists the open descriptors of this process.

Their number says little, because threads of earlier tests may still be closing theirs, or open
some for a moment.
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


def copies(descriptor: int) -> frozenset[int]:
    """Returns the other descriptors of this process of the same file.

    What a test has given to others in this process is counted so, whatever else threads of the
    daemon and of earlier tests open meanwhile: the thread of a ring, for instance, opens an eventfd
    at some time after its first execution.
    """
    status = os.fstat(descriptor)
    return frozenset(
        number
        for number, device, inode in open_files()
        if number != descriptor and (device, inode) == (status.st_dev, status.st_ino)
    )
