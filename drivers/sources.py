"""A digest of the files that a driver's compiler consists of, which is a part of the driver's version.

So nothing that other code has compiled is taken from a cache. The digest is over the contents of the files, and copies of the same
release agree wherever they lie. Since reading some hundred files takes 10 ms and more, the last digest is kept in the user's cache
with the sizes and times of the files, which take 2 ms.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from neurald.hal.process.fork import forkable_lock
from neurald.hal.process.private_directory import make_directory

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_PACKAGE = "neurald"
#: Where it lies, if that is a directory.
_ROOT = Path(__file__).parent.parent
#: Of a digest, in hexadecimal.
_DIGITS = 16

_known: dict[tuple[str, ...], str] = {}
_lock = forkable_lock()


def sources_digest(*folders: str) -> str:
    """The digest of all files in folders of this package, computed once in a process.

    Args:
        folders: such as "drivers/cpu".
    """
    with _lock:
        if folders not in _known:
            _known[folders] = digest_of_directory(_ROOT, folders) if _ROOT.is_dir() else _packed(folders)
        return _known[folders]


def _packed(folders: Iterable[str]) -> str:
    from importlib.resources import files  # slow to import, and of use in zip files only

    return digest_of_resources(files(_PACKAGE), folders)


def digest_of_directory(root: Path, folders: Iterable[str]) -> str:
    """The digest of all files in folders of a directory, from the user's cache where they have not changed.

    Args:
        root: the directory.
        folders: by their paths in it.
    """
    paths = _paths(root, folders)
    state = _state(root, paths)
    memory = platformdirs.user_cache_path("neurald") / "sources" / _hexadecimal(f"{root}\0{folders}".encode())
    known = _recall(memory, state)
    if known:
        return known
    digest = _content_digest((path, (root / path).read_bytes) for path in paths)
    # Files that were written to meanwhile are read again next time.
    if _state(root, paths) == state:
        _remember(memory, state, digest)
    return digest


def digest_of_resources(root: "Traversable", folders: Iterable[str]) -> str:
    """The same for a package that is no directory, but a zip file for example."""
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
    """The paths of all files, from `root` on, sorted."""
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
    """What changes whenever a file is written to, or another one takes its place."""
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
    """The digest that was remembered for this state; "" if that was another one, or cannot be read."""
    try:
        before, digest, check = memory.read_text("ascii").split()
    except (OSError, ValueError):
        return ""
    return digest if before == state and check == _hexadecimal(f"{before} {digest}".encode()) else ""


def _remember(memory: Path, state: str, digest: str) -> None:
    """Keeps a digest, where that is possible; a reader never sees half of it."""
    said = f"{state} {digest}"
    with contextlib.suppress(OSError):
        make_directory(memory.parent)
        with tempfile.NamedTemporaryFile("w", dir=memory.parent, delete=False) as file:
            file.write(f"{said} {_hexadecimal(said.encode())}\n")
        Path(file.name).replace(memory)


def _hexadecimal(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
