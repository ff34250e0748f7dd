"""Digest of a driver's compiler sources, which is part of the driver's version.

It prevents the use of cached results that other code has compiled. The digest covers the contents
of the files, so copies of a release agree wherever they are installed. Since reading some hundred
files takes at least 10 ms, the last digest is kept in the user's cache with the sizes and times of
the files, which take 2 ms to check.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from neurald.hal.process.fork import forkable_lock
from neurald.hal.process.private_directory import make_directory

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_PACKAGE = "neurald"
#: Location of the package, if it is a directory.
_ROOT = Path(__file__).parent.parent.parent
#: Length of a digest in hexadecimal digits.
_DIGITS = 16

_known: dict[tuple[str, ...], str] = {}
_lock = forkable_lock()


def sources_digest(*folders: str) -> str:
    """Returns the digest of all files in folders of this package, computed once per process.

    Args:
        folders: such as "drivers/cpu".
    """
    with _lock:
        if folders not in _known:
            _known[folders] = digest_of_directory(_ROOT, folders) if _ROOT.is_dir() else _packed(folders)
        return _known[folders]


def _packed(folders: Iterable[str]) -> str:
    from importlib.resources import files  # slow to import, and only needed for zip files

    return digest_of_resources(files(_PACKAGE), folders)


def digest_of_directory(root: Path, folders: Iterable[str]) -> str:
    """Returns the digest of all files in folders of a directory.

    Cached while they are unchanged.

    Args:
        root: the directory.
        folders: their paths in it.
    """
    paths = _paths(root, folders)
    state = _state(root, paths)
    memory = platformdirs.user_cache_path("neurald") / "sources" / _hexadecimal(f"{root}\0{folders}".encode())
    known = _recall(memory, state)
    if known:
        return known
    digest = _content_digest((path, partial(_read, f"{root}/{path}")) for path in paths)
    # Files that were written meanwhile are read again next time.
    if _state(root, paths) == state:
        _remember(memory, state, digest)
    return digest


def _read(path: str) -> bytes:
    """Returns the content of a file, in half of the time of `Path.read_bytes`."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def digest_of_resources(root: "Traversable", folders: Iterable[str]) -> str:
    """Returns the digest for a package that is not a directory, such as one in a zip file."""
    found: list[tuple[str, Callable[[], bytes]]] = []
    pending = [(folder, root.joinpath(*folder.split("/"))) for folder in folders]
    while pending:
        path, each = pending.pop()
        if not each.is_dir():
            found.append((path, each.read_bytes))
        elif each.name != "__pycache__":
            pending += [(f"{path}/{inner.name}", inner) for inner in each.iterdir()]
    return _content_digest(sorted(found, key=lambda one: one[0]))


def _paths(root: Path, folders: Iterable[str]) -> list[str]:
    """Returns the sorted paths of all files, relative to `root`."""
    found = []
    pending = list(folders)
    while pending:
        folder = pending.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}"
                if not entry.is_dir():
                    found.append(path)
                elif entry.name != "__pycache__":
                    pending.append(path)
    return sorted(found)


def _state(root: Path, paths: Iterable[str]) -> str:
    """Returns a digest that changes whenever a file is written or replaced."""
    digest = hashlib.sha256()
    for path in paths:
        status = os.stat(f"{root}/{path}")  # noqa: PTH116 - a Path for each takes as long again
        digest.update(
            f"{path}\0{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\0".encode()
        )
    return digest.hexdigest()


def _content_digest(contents: Iterable[tuple[str, Callable[[], bytes]]]) -> str:
    digest = hashlib.sha256()
    for path, read in contents:
        content = read()
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_DIGITS]


def _recall(memory: Path, state: str) -> str:
    """Returns the digest that was stored for this state.

    "" if there is none, or it cannot be read.
    """
    try:
        before, digest, check = memory.read_text("ascii").split()
    except (OSError, ValueError):
        return ""
    return digest if before == state and check == _hexadecimal(f"{before} {digest}".encode()) else ""


def _remember(memory: Path, state: str, digest: str) -> None:
    """Stores a digest if possible, atomically."""
    said = f"{state} {digest}"
    with contextlib.suppress(OSError):
        make_directory(memory.parent)
        with tempfile.NamedTemporaryFile("w", dir=memory.parent, delete=False) as file:
            file.write(f"{said} {_hexadecimal(said.encode())}\n")
        Path(file.name).replace(memory)


def _hexadecimal(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
