"""Digest of a driver's compiler sources, which is part of the driver's version.

It prevents the use of cached results that other code has compiled. The digest covers the contents
of the files, so copies of a release agree wherever they are installed. Since reading some hundred
files takes at least 10 ms, the last digest is kept in the user's cache with the sizes and times of
the files, which take 2 ms to check. Drivers' processes may write to the cache: so the file has an
authentication code, without which results of other code could be passed off as this one's.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from neurald.hal.cache.file import read_small, write_small
from neurald.hal.cache.secret import MAC_BYTES, authentication_code, installation_secret, secret_owner
from neurald.hal.digests import are_equal, hex_digest_of, new_digest
from neurald.hal.errors import BadData, BadState
from neurald.hal.process.files.user_directories import cache_directory
from neurald.hal.process.fork import forkable_lock

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_PACKAGE = "neurald"
#: Location of the package, if it is a directory.
_ROOT = Path(__file__).parent.parent.parent
#: How paths of single files end.
_FILES = (".py", ".ll")
#: Length of a digest in hexadecimal digits.
_DIGITS = 16
#: Room for a file that is read; nearly all are smaller.
_READ_BYTES = 1 << 16
_PURPOSE = b"sources digest"
_MAX_FILE_BYTES = 1 << 10

_known: dict[tuple[str, ...], str] = {}
#: The scans of this process, by folder.
_scans: "dict[str, _Scan]" = {}
_lock = forkable_lock()


def sources_digest(*folders: str) -> str:
    """Returns the digest of all files in folders of this package, computed once per process.

    Args:
        folders: such as "drivers/cpu"; also single files, such as "drivers/cpu/device.py".
    """
    with _lock:
        if folders not in _known:
            _known[folders] = (
                digest_of_directory(_ROOT, folders, _scans) if _ROOT.is_dir() else _packed(folders)
            )
        return _known[folders]


def _packed(folders: Iterable[str]) -> str:
    from importlib.resources import files  # slow to import, and only needed for zip files

    return digest_of_resources(files(_PACKAGE), folders)


def digest_of_directory(root: Path, folders: Iterable[str], scans: "dict[str, _Scan] | None" = None) -> str:
    """Returns the digest of all files in folders of a directory.

    Cached while they are unchanged.

    Args:
        root: the directory.
        folders: their paths in it; also those of single files.
        scans: what has been found in folders of the directory so far; gets what is found.
    """
    found = _states(root, folders, {} if scans is None else scans)
    digest = new_digest()
    for path in sorted(found):
        digest.update(f"{path}\0{found[path]}\0".encode())
    state = digest.hexdigest()
    # A driver's process cannot check what an application's has authenticated.
    place = f"{root}\0{folders}\0{secret_owner()}"
    memory = cache_directory() / "sources" / _hexadecimal(place.encode())
    known = _recall(memory, state)
    if known:
        return known
    reader, paths = _FileReader(), sorted(_paths(found))
    content = _content_digest((path, partial(reader.read, f"{root}/{path}")) for path in paths)
    # Files that were written since they were examined have another state, so it is no problem if
    # this is the digest of what was written.
    _remember(memory, state, content)
    return content


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


def _states(root: Path, folders: Iterable[str], scans: "dict[str, _Scan]") -> dict[str, str]:
    """Returns the files of each folder (`_Scan.files`), and the states of single files, by path."""
    found: dict[str, str] = {}
    single: dict[str, dict[str, str]] = {}
    pending = list(folders)
    while pending:
        path = pending.pop()
        if path.endswith(_FILES):
            folder, _, name = path.rpartition("/")
            if folder not in single:
                single[folder] = _by_name(_scan(root, folder, scans).files)
            states = single[folder]
            if name not in states:
                raise FileNotFoundError(f"{root}/{path} is missing")
            found[path] = states[name]
            continue
        scan = _scan(root, path, scans)
        found[path] = scan.files
        pending += scan.folders
    return found


def _paths(states: Mapping[str, str]) -> set[str]:
    """Returns the paths of all files, relative to the root, from what `_states` returns."""
    found: set[str] = set()
    for path, files in states.items():
        if path.endswith(_FILES):
            found.add(path)
        else:
            found.update([f"{path}/{name}" for name in _by_name(files)])
    return found


def _by_name(files: str) -> dict[str, str]:
    """Returns the state of each file of `_Scan.files`, by name."""
    parts = files.split("\0") if files else []
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _scan(root: Path, folder: str, scans: "dict[str, _Scan]") -> "_Scan":
    """Returns the contents of a folder, which is read once."""
    scan = scans.get(folder)
    if scan is None:
        scan = scans[folder] = _Scan(root, folder)
    return scan


class _Scan:
    """The files of a folder, with states that change whenever they are written or replaced.

    Attributes:
        files: the name and the state of each file, separated by NUL. It stays for the life of the
            process, so it is one text and not several objects for each file.
        folders: the paths of the folders in it.
    """

    __slots__ = ("files", "folders")

    def __init__(self, root: Path, folder: str) -> None:
        files: list[str] = []
        self.folders: list[str] = []
        # Linux finds a file in an open folder sooner than by a whole path.
        descriptor = os.open(f"{root}/{folder}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    if not entry.is_dir():
                        status = entry.stat()
                        files.append(
                            f"{entry.name}\0{status.st_ino} {status.st_size} {status.st_mtime_ns} "
                            f"{status.st_ctime_ns}"
                        )
                    elif entry.name != "__pycache__":
                        self.folders.append(f"{folder}/{entry.name}")
        finally:
            os.close(descriptor)
        self.files = "\0".join(sorted(files))


class _FileReader:
    """Reads one file after another into the same memory.

    Hundreds of files, each in memory of its own, would leave as many holes of different sizes in
    the memory of the process.
    """

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(_READ_BYTES))

    def read(self, path: str) -> memoryview:
        """Returns the content of a file, until the next one is read.

        Raises:
            OSError: it cannot be read.
        """
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = 0
            while count := os.readv(descriptor, [self._memory[size:]]):
                size += count
                if size == len(self._memory):
                    larger = memoryview(bytearray(2 * size))
                    larger[:size] = self._memory
                    self._memory = larger
        finally:
            os.close(descriptor)
        return self._memory[:size]


def _content_digest(contents: Iterable[tuple[str, Callable[[], bytes | memoryview]]]) -> str:
    digest = new_digest()
    for path, read in contents:
        content = read()
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_DIGITS]


def _recall(memory: Path, state: str) -> str:
    """Returns the digest that was stored for this state.

    "" if there is none, or it cannot be read, or is not authentic.
    """
    if not memory.is_absolute():
        return ""
    try:
        content = read_small(memory, _MAX_FILE_BYTES)
        code, said = content[:MAC_BYTES], content[MAC_BYTES:]
        if not are_equal(code, authentication_code(installation_secret(), _PURPOSE, said)):
            return ""
        before, digest = said.decode("ascii").split()
    except (BadData, BadState, OSError, ValueError):
        return ""
    return digest if before == state else ""


def _remember(memory: Path, state: str, digest: str) -> None:
    """Stores a digest if possible, atomically."""
    if not memory.is_absolute():
        return
    said = f"{state} {digest}".encode()
    with contextlib.suppress(BadData, BadState, OSError):
        code = authentication_code(installation_secret(), _PURPOSE, said)
        write_small(memory, code + said)


def _hexadecimal(content: bytes) -> str:
    return hex_digest_of(content)[:_DIGITS]
