"""Files that a user names, opened so that none of them can make the command wait or read without an end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from neurald.hal.errors import BadData


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened to be read. Nobody has to write to a pipe first for one to be refused.

    Raises:
        BadData: it is a pipe, a device or something else without an end.
        OSError: it cannot be opened, or is a directory.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise BadData(f"{path} is not a regular file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
