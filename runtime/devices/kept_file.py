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

from neurald.hal.cache.file import open_directory, read_bytes
from neurald.hal.cache.store import default_directory
from neurald.hal.errors import BadData, BadState
from neurald.hal.process.files.private_directory import make_directory, open_private_file
from neurald.hal.process.files.runtime_directory import runtime_directory

_FOLDER: Final = "devices"
_MAX_FILE_BYTES: Final = 1 << 18
#: How many files a folder has at most.
_MAX_FILES: Final = 256


def contents(name: str) -> Iterator[bytes]:
    """Yields the content of each file of that name, of the one written last first."""
    for folder in _folders():
        try:
            descriptor = open_directory(folder)
            try:
                content = read_bytes(descriptor, name, _MAX_FILE_BYTES)
            finally:
                os.close(descriptor)
        except (BadData, OSError):
            continue
        yield content


def write(name: str, content: bytes) -> None:
    """Replaces the file of that name, if one can be written."""
    if len(content) > _MAX_FILE_BYTES:
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
    draft = folder / f".{os.urandom(8).hex()}"
    try:
        make_directory(folder)
        os.close(open_directory(folder))  # it is this user's own
        _make_room(folder)
        with open(draft, "xb", opener=open_private_file) as file:
            file.write(content)
        draft.replace(folder / name)
    except (BadData, OSError):
        with contextlib.suppress(OSError):
            draft.unlink()
        return False
    return True


def _make_room(folder: Path) -> None:
    """Removes the older half of very many files."""
    files = [path for path in folder.iterdir() if not path.is_dir()]
    if len(files) >= _MAX_FILES:
        by_age = sorted(files, key=lambda path: path.lstat().st_mtime)
        for path in by_age[: _MAX_FILES // 2]:
            path.unlink(missing_ok=True)
