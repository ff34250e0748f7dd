"""Small files in which applications keep facts about devices.

They are in a folder of the default cache, or of the runtime directory if the cache cannot be
written, and are replaced as a whole. Losing one costs time and nothing else, so no failure is
reported.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from neurald.hal.cache.file import open_directory, read_small, replace_file
from neurald.hal.cache.store import default_directory
from neurald.hal.errors import BadData, BadState
from neurald.hal.process.files.private_directory import make_directory
from neurald.hal.process.files.runtime_directory import runtime_directory

_FOLDER: Final = "devices"
#: Larger ones are not written.
MAX_FILE_BYTES: Final = 1 << 18
#: How many files a folder has at most.
_MAX_FILES: Final = 256


def contents(name: str) -> Iterator[bytes]:
    """Yields the content of each file of that name, of the one written last first.

    Where the better folder has become full or read-only, it keeps an old file.
    """
    found: list[tuple[int, bytes]] = []
    for folder in _folders():
        path = folder / name
        try:
            content = read_small(path, MAX_FILE_BYTES)
            found.append((path.stat().st_mtime_ns, content))
        except (BadData, OSError):
            continue
    for _, content in sorted(found, key=lambda each: each[0], reverse=True):
        yield content


def write(name: str, content: bytes) -> None:
    """Replaces the file of that name, if one can be written, and the content is not too large."""
    if len(content) > MAX_FILE_BYTES:
        return
    folders = _folders()
    while folders:
        folder = folders.pop(0)
        if _is_written(folder, name, content):
            for other in folders:
                with contextlib.suppress(OSError):
                    (other / name).unlink()
            return


def _folders() -> list[Path]:
    """Returns the folders that may have a file, the better one first."""
    folders = [runtime_directory() / _FOLDER]
    with contextlib.suppress(BadState):
        folders.insert(0, default_directory() / _FOLDER)
    return folders


def _is_written(folder: Path, name: str, content: bytes) -> bool:
    try:
        make_directory(folder)
        directory = open_directory(folder)
        try:
            _make_room(directory)
            replace_file(directory, name, content)
        finally:
            os.close(directory)
    except (BadData, OSError):
        return False
    return True


def _make_room(directory: int) -> None:
    """Removes the older half of very many files."""
    with os.scandir(directory) as found:
        files = [each for each in found if not each.is_dir(follow_symlinks=False)]
        if len(files) < _MAX_FILES:
            return
        by_age = sorted(files, key=lambda file: file.stat(follow_symlinks=False).st_mtime)
    for file in by_age[: _MAX_FILES // 2]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.name, dir_fd=directory)
