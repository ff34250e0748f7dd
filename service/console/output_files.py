"""Checks, before long work, that the files for its results can be written."""

import os
from errno import EACCES, EISDIR, ENOENT
from pathlib import Path

from neurald.hal.errors import BadData


def require_writable(*paths: Path | None) -> None:
    """Checks that files can be written, so that no result of long work is lost.

    Args:
        paths: the files that a user names; None for those that are not asked for.

    Raises:
        BadData: two results are to be written to the same file.
        FileNotFoundError: the folder of a file does not exist.
        IsADirectoryError: a path is that of a folder.
        PermissionError: this user may not write a file, or not in its folder.
    """
    given = [path for path in paths if path is not None]
    for place, path in enumerate(given):
        # A device, such as a terminal, takes one result after the other.
        if (path.is_file() or not path.exists()) and path.resolve() in map(Path.resolve, given[:place]):
            raise BadData(f"{path} is named for two results; give each a file of its own")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise FileNotFoundError(ENOENT, "there is no such folder", str(path.parent))
        if path.is_dir():
            raise IsADirectoryError(EISDIR, "this is a folder; a file name is expected", str(path))
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise PermissionError(EACCES, "this user may not write it", str(path))
