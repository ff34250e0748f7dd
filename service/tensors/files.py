"""Opens files that a user names, without the risk of blocking or of reading without end."""

import errno
import os
import stat
import zipfile
from pathlib import Path
from typing import BinaryIO, Final

from neurald.hal.errors import BadData

#: Most bytes that are read from an archive at once, and so of its directory, which takes ten times
#: as much memory.
_MAX_READ_BYTES: Final = 1 << 20


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


class _Archived:
    """A file with an archive, of which only a part is read at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1, /) -> bytes:
        """Reads at most this many bytes, and hardly ever all of a large number."""
        return self._file.read(_MAX_READ_BYTES if size < 0 else min(size, _MAX_READ_BYTES))


def open_archive(file: BinaryIO) -> zipfile.ZipFile:
    """Opens a zip archive that is a file, or that is appended to one.

    Raises:
        BadData: there is none, or it is damaged, or its directory is very long.
    """
    try:
        return zipfile.ZipFile(_Archived(file))
    # Damaged bytes make it raise almost any exception.
    except Exception as error:
        raise BadData(f"it is not a zip archive: {error}") from None
