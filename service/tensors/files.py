"""Opens files that a user names, without the risk of blocking or of reading without end."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from neurald.hal.errors import BadData


def open_regular(path: Path) -> BinaryIO:
    """Opens a regular file for reading. Pipes are refused without waiting for a writer.

    Raises:
        BadData: the path is a pipe, a device or another file that is not regular.
        OSError: the file cannot be opened, or is a directory.
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
