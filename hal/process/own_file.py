"""Removes files that this process has made, and not what others have put in their place since."""

from pathlib import Path


def file_number(path: Path) -> int:
    """Returns what tells a file from those that may replace it.

    Raises:
        OSError: there is no such file.
    """
    return path.lstat().st_ino


def is_own(path: Path, number: int | None) -> bool:
    """Returns whether a file is there and was not replaced.

    Args:
        path: of the file.
        number: of the file that this process has made; None if it has made none.
    """
    try:
        return file_number(path) == number
    except OSError:
        return False


def remove_own(path: Path, number: int | None) -> None:
    """Removes a file unless it was replaced.

    Args:
        path: of the file, which may be missing.
        number: of the file that this process has made; None if it has made none.
    """
    if is_own(path, number):
        path.unlink(missing_ok=True)
