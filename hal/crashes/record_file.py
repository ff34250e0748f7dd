"""A small file of records about drivers, which several processes of a user read and change.

It is changed under a lock and by an atomic replacement. A file that is missing or damaged counts as
empty.
"""

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from neurald.hal.decoding import from_json
from neurald.hal.errors import BadData, BadState
from neurald.hal.process.files.bounded_read import read_at_most
from neurald.hal.process.files.file_lock import ProcessLock
from neurald.hal.process.files.private_directory import make_directory
from neurald.hal.records import DECODE_ERRORS

logger = logging.getLogger(__name__)

_FORMAT: Final = 1
_MAX_ENTRIES: Final = 256
_MAX_FILE_BYTES: Final = 16 << 20
#: The rest is for what is around and between the entries.
_MAX_CONTENT_BYTES: Final = _MAX_FILE_BYTES - (1 << 12)
#: The longest text of an entry.
MAX_TEXT: Final = 600


class RecordEntry(Protocol):
    """An entry of such a file: a struct of `msgspec`."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the entry."""
        ...

    @property
    def weight(self) -> tuple[object, ...]:
        """Orders entries: those with the least are dropped first."""
        ...

    def check(self) -> None:
        """Raises BadData unless the entry is valid."""
        ...


_Entry = TypeVar("_Entry", bound=RecordEntry)
_Result = TypeVar("_Result")


class RecordFile(Generic[_Entry]):
    """A file of entries. Safe for concurrent threads and processes.

    Args:
        path: the path of the file.
        entry: the type of the entries.
        loss: says what a damaged file means, for the log.
    """

    def __init__(self, path: Path, entry: type[_Entry], loss: str) -> None:
        self._path = path
        self._type = entry
        self._loss = loss
        self._state: tuple[int, ...] | None = None
        self._entries: tuple[_Entry, ...] = ()

    def entries(self) -> tuple[_Entry, ...]:
        """Returns all entries. While the file does not change, it is not read again."""
        state = self._file_state()
        if state != self._state:
            self._entries = self._read()
            self._state = state
        return self._entries

    def change(self, change: Callable[[dict[tuple[str, str, str], _Entry]], _Result]) -> _Result:
        """Changes the entries, which are given by their keys; returns what `change` does.

        Raises:
            BadState: the file cannot be written.
        """
        try:
            make_directory(self._path.parent)
            with self._locked():
                entries = {each.key: each for each in self._read()}
                result = change(entries)
                kept = _within_limits(entries.values())
                self._write(msgspec.json.encode({"format": _FORMAT, "entries": kept}))
        except OSError as error:
            raise BadState(f"{self._path} cannot be written: {error.strerror or error}") from None
        return result

    def forget(self, is_meant: Callable[[_Entry], bool]) -> tuple[_Entry, ...]:
        """Removes entries, and returns them.

        Raises:
            BadState: the file cannot be written.
        """

        def changed(entries: dict[tuple[str, str, str], _Entry]) -> tuple[_Entry, ...]:
            gone = tuple(each for each in entries.values() if is_meant(each))
            for each in gone:
                del entries[each.key]
            return gone

        return self.change(changed)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = ProcessLock(self._path.with_suffix(".lock"))
        lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _write(self, content: bytes) -> None:
        draft = self._path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)

    def _file_state(self) -> tuple[int, ...] | None:
        try:
            status = self._path.lstat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self) -> tuple[_Entry, ...]:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    raise BadData("it is not a regular file of this user")
                content = read_at_most(file, _MAX_FILE_BYTES)
            if len(content) > _MAX_FILE_BYTES:
                raise BadData(f"it has more than {_MAX_FILE_BYTES} bytes")
            read = from_json(content, _Header)
            if read.format != _FORMAT:
                raise BadData(f"it has format {read.format}; {_FORMAT} is expected")
            entries = tuple(from_json(each, self._type) for each in read.entries)
            for entry in entries:
                entry.check()
        except FileNotFoundError:
            return ()
        except PermissionError as error:
            # A process in a sandbox may read the file that was there, and none that replaces it.
            logger.warning("what has changed in %s is not known: %s", self._path, error)
            return self._entries
        except (OSError, BadData, *DECODE_ERRORS) as error:
            logger.warning("%s: %s: %s", self._loss, self._path, error)
            return ()
        return entries[:_MAX_ENTRIES]


def _within_limits(entries: Iterable[_Entry]) -> list[msgspec.Raw]:
    """Returns what the file has room for: what is dropped are entries of who has most of it.

    Otherwise a driver that dies again and again could erase what is known of the others.
    """
    ordered = sorted(entries, key=lambda each: each.weight)
    texts = {each.key: msgspec.json.encode(each) for each in ordered}
    of_each: dict[str, list[tuple[str, str, str]]] = {}
    for entry in reversed(ordered):
        of_each.setdefault(entry.key[0], []).append(entry.key)
    sizes = {name: sum(len(texts[key]) for key in keys) for name, keys in of_each.items()}
    while len(texts) > _MAX_ENTRIES or sum(sizes.values()) > _MAX_CONTENT_BYTES:
        is_count = len(texts) > _MAX_ENTRIES
        name = max(of_each, key=lambda each: len(of_each[each]) if is_count else sizes[each])
        sizes[name] -= len(texts.pop(of_each[name].pop()))
    return [msgspec.Raw(text) for text in texts.values()]


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    entries: tuple[msgspec.Raw, ...]
