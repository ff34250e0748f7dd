"""The compilation cache: stores compiled artifacts on disk, so that each is compiled once.

A cache is a directory. Each entry is a subdirectory named by its key (`neurald.hal.cache.key`,
`neurald.hal.cache.entry`). These rules make it safe to share between processes that may be killed
at any time:

- An entry is written under a temporary name and then renamed, so it exists completely or not at
  all. After a system crash it may be incomplete, which its digests reveal. A writer holds a lock on
  its draft, so that drafts of dead writers can be recognised and are removed.
- An entry is removed by renaming it first. A process that has already opened it continues to read,
  or finds a file missing, which is a miss.
- Any defect of an entry is a miss, with a reason for the user, never an error.
- If several processes miss the same key, one compiles, and the others wait a limited time for its
  entry.
- After writing an entry, the least recently used entries are removed until the cache is within its
  limit.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from msgspec import Struct

from neurald.hal.cache.constant_digests import ConstantDigests
from neurald.hal.cache.directory import CacheDirectory
from neurald.hal.cache.entry import (
    Manifest,
    Origin,
    claimed_owner,
    read_entry,
    read_manifest,
    write_entry,
)
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.secret import derived_secret, installation_secret, secret_owner
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.errors import BadData, BadState, Error, OpFailed
from neurald.hal.process.environment import environment_variable
from neurald.hal.process.files.file_lock import ProcessLock
from neurald.hal.process.files.user_directories import cache_directory
from neurald.hal.sync.cancellation import Cancellation

#: Environment variable with the maximum size of a cache, in bytes.
MAX_BYTES_VARIABLE = "NEURALD_CACHE_MAX_BYTES"
DEFAULT_MAX_BYTES = 2 << 30
#: The most digits of a maximum size: more than any disk has.
_MAX_DIGITS = 18

_LOCKS = "locks"
#: How many entries are compared at most to explain a miss.
_MAX_COMPARED = 256
#: A process remembers the parts of entries of this many directories.
_MAX_KNOWN = 8
#: The number of the inode and the parts of each entry that this process has read, by name, latest
#: last, for the path of the directory and the secret; without parts if it is not to be compared.
_known_parts: dict[tuple[Path, bytes], dict[str, tuple[int, KeyParts | None]]] = {}


class Miss(Struct, frozen=True, kw_only=True):
    """The reason why the cache has no usable entry."""

    reason: str


class CacheLocation(Struct, frozen=True, array_like=True):
    """Tells another process of the same user where a cache is, and with what it is opened.

    The environment of that process may name another secret or another limit.

    Attributes:
        path: absolute, of the directory.
        limit_bytes: see `Cache`.
        secret: the secret of the installation, or of a driver.
        owner: see `Cache`.
    """

    path: str
    limit_bytes: int
    secret: bytes
    owner: str = ""


class Loaded(Struct, frozen=True, kw_only=True):
    """An artifact from the cache and its manifest."""

    artifact: Artifact
    manifest: Manifest


class EntryStatus(Struct, frozen=True, kw_only=True):
    """The state of an entry on disk.

    Attributes:
        key: the key in hexadecimal.
        last_use_s: the last use on the clock of `time.time()`.
        manifest: None if it is not authentic.
        damage: the defect of the entry; "" if there is none.
    """

    key: str
    size_bytes: int
    last_use_s: float
    manifest: Manifest | None
    damage: str = ""


def default_directory() -> Path:
    """Returns the cache directory of this user, below `$XDG_CACHE_HOME`.

    Raises:
        BadState: the user has no home directory.
    """
    path = cache_directory()
    if not path.is_absolute():
        raise BadState(
            f"there is no directory for a cache: {path} is not absolute; set HOME or XDG_CACHE_HOME"
        )
    return path


def max_bytes_from_environment() -> int:
    """Returns the maximum size of a cache, in bytes.

    Raises:
        BadState: the environment variable is not a number, or too large for a file.
    """
    text = environment_variable(MAX_BYTES_VARIABLE)
    if not text:
        return DEFAULT_MAX_BYTES
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise BadState(
            f"{MAX_BYTES_VARIABLE} is {text[:100]!r}; a number of bytes is expected, of at most {_MAX_DIGITS} digits"
        )
    return int(text)


class Cache:
    """The cache in a directory. Safe for concurrent threads and processes.

    Args:
        path: the path of the directory, which is created on first store.
        limit_bytes: maximum size; None for that of the environment.
        secret: the secret of the installation; None for the one that this process has.
        owner: the owner of a secret that is given, see `neurald.hal.cache.secret.secret_owner`.

    Attributes:
        constants: digests of models' constants that are known from earlier.

    Raises:
        BadState: the directory does not belong to the user alone, or the installation has no
            secret.
    """

    def __init__(
        self, path: Path, limit_bytes: int | None = None, secret: bytes | None = None, owner: str = ""
    ) -> None:
        self.limit_bytes = max_bytes_from_environment() if limit_bytes is None else limit_bytes
        self._secret = installation_secret() if secret is None else secret
        self._owner = secret_owner() if secret is None else owner
        self._directory = CacheDirectory(path)
        self.constants = ConstantDigests(self._directory, self._secret)

    @classmethod
    def at(cls, location: CacheLocation) -> Self:
        """Opens the cache of another process."""
        return cls(Path(location.path), location.limit_bytes, location.secret, location.owner)

    @property
    def location(self) -> CacheLocation:
        """The arguments with which another process opens this cache."""
        return CacheLocation(str(self.path.absolute()), self.limit_bytes, self._secret, self._owner)

    @property
    def path(self) -> Path:
        """Path of the directory."""
        return self._directory.path

    def has_entries(self) -> bool:
        """Returns False if nothing is stored, so that no key needs to be computed."""
        return self._directory.has_entries()

    def load(self, key: bytes, needed: CacheFilesNeeded, *, is_shared: bool = False) -> Loaded | Miss:
        """Loads and verifies the artifact of a key.

        The artifact is in memory that no other process can change. Large data, which affect only
        values, are not hashed again if their files are unchanged since they were verified.

        Args:
            key: see `neurald.hal.cache.key`.
            needed: the files that the device needs.
            is_shared: whether another process will map large data.
        """
        name = key.hex()
        try:
            path = self._directory.entry(name)
            manifest, artifact = read_entry(path, self._secret, name, needed, is_shared=is_shared)
            return Loaded(artifact=artifact, manifest=manifest)
        except FileNotFoundError:
            return Miss(reason="the entry is not complete" if self._directory.exists(name) else "")
        except OSError as error:
            return Miss(reason=f"the entry cannot be read: {error.strerror or error}")
        except Error as error:
            return Miss(reason=f"the entry cannot be used: {error}")

    def why_missing(self, parts: KeyParts) -> str:
        """Returns why these parts have no entry, judging by other entries of the device."""
        nearest: tuple[str, ...] | None = None
        compared = 0
        for earlier in self._parts_of_entries():
            # Only entries of the same variant are comparable.
            if (earlier.device, earlier.variant) != (parts.device, parts.variant):
                continue
            if earlier.graphs == parts.graphs or (parts.token and earlier.token == parts.token):
                changes = parts.changes_since(earlier)
                if nearest is None or len(changes) < len(nearest):
                    nearest = changes
                compared += 1
                if compared == _MAX_COMPARED:
                    break
        return "; ".join(nearest) if nearest else "first use"

    def _parts_of_entries(self) -> list[KeyParts]:
        """Returns the parts of entries, latest first; reads only what this process has not."""
        place = self.path, self._secret
        known, inodes = _known_parts.get(place, {}), self._directory.inodes()
        found = {name: each for name, each in known.items() if each[0] == inodes.get(name)}
        new = inodes.keys() - found.keys()
        if new:
            import heapq  # a hit in the cache does not need it

            latest = heapq.nlargest(_MAX_COMPARED, new, self._directory.last_use_s)
            found |= {name: (inodes[name], None) for name in new.difference(latest)}
            found |= {name: (inodes[name], self._parts_of(name)) for name in reversed(latest)}
        if place not in _known_parts and len(_known_parts) >= _MAX_KNOWN:
            _known_parts.clear()
        _known_parts[place] = found
        return [parts for _, parts in reversed(found.values()) if parts is not None]

    def _parts_of(self, name: str) -> KeyParts | None:
        """Returns the parts of an entry; None if it is damaged or was removed meanwhile."""
        try:
            return self._authenticated(self._directory.entry(name), name)[0].parts
        except (OSError, Error):
            return None

    @contextlib.contextmanager
    def lock(
        self,
        key: bytes,
        timeout_s: float,
        cancellation: Cancellation | None = None,
        *,
        is_background: bool = False,
    ) -> Iterator[bool]:
        """Waits up to `timeout_s` seconds until no other process compiles for this key.

        On a busy machine, a process of low priority may take minutes for what takes others a
        second. So nothing whose result is awaited waits for work in the background. At worst, a
        model is compiled twice.

        Args:
            key: see `neurald.hal.cache.key`.
            timeout_s: how long to wait.
            cancellation: ends the wait; None if it cannot be cancelled.
            is_background: True if no caller waits for the result.

        Yields:
            True if the lock is held. It is released at the end of the block, or of the process.
        """
        locks, end_s = self.path / _LOCKS, time.monotonic() + timeout_s
        # Few enough files to keep forever, and enough that two keys hardly ever share one.
        awaited = ProcessLock(locks / key.hex()[:3])
        lock = ProcessLock(locks / f"{key.hex()[:3]}-background") if is_background else awaited

        def is_over() -> bool:
            return cancellation is not None and cancellation.is_cancelled

        try:
            self._directory.make()
            locks.mkdir(mode=0o700, exist_ok=True)
            is_held = lock.acquire(timeout_s, is_over)
            if is_held and is_background:
                is_held = awaited.acquire(max(0.0, end_s - time.monotonic()), is_over)
                awaited.release()
        except (OSError, Error):
            is_held = False
        try:
            yield is_held
        finally:
            lock.release()

    def store(self, parts: KeyParts, artifact: Artifact, origin: Origin) -> None:
        """Stores an artifact; replaces one with the same key.

        Raises:
            BadData: it is larger than the limit of the cache.
            BadState: the directory does not belong to the user alone.
            OpFailed: it cannot be written.
        """
        size = sum(memory.size for memory in (*artifact.model, *artifact.data)) + len(artifact.seal)
        if size > self.limit_bytes:
            raise BadData(
                f"the artifact has {size} bytes; the cache may have {self.limit_bytes} ({MAX_BYTES_VARIABLE})"
            )
        name = parts.key().hex()
        try:
            self._directory.make()
            self._directory.sweep_at_times()
            self._directory.shrink(self.limit_bytes - size, keep=name, is_estimate=True)
            with self._directory.draft(name) as entry:
                write_entry(entry, self._secret, parts, artifact, origin, self._owner)
            self._directory.shrink(self.limit_bytes, keep=name)
        except OSError as error:
            raise OpFailed(f"the cache {self.path} cannot be written: {error.strerror or error}") from None

    def remove(self, name: str) -> bool:
        """Removes the entry of a key in hexadecimal.

        Returns False if there is none or that fails.
        """
        return self._directory.remove(name)

    def entries(self) -> list[EntryStatus]:
        """Returns all entries, in no particular order. Only manifests are verified."""
        return self._statuses(is_thorough=False)

    def verify(self) -> list[EntryStatus]:
        """Returns all entries, in no particular order, each completely read and verified."""
        return self._statuses(is_thorough=True)

    def _statuses(self, *, is_thorough: bool) -> list[EntryStatus]:
        found = (self._status(name, is_thorough=is_thorough) for name in self._directory.names())
        return [status for status in found if status is not None]

    def _status(self, name: str, *, is_thorough: bool) -> EntryStatus | None:
        """Returns the state of an entry; None if it was removed meanwhile."""
        manifest, damage = None, ""
        size, last_use = self._directory.size_bytes(name), self._directory.last_use_s(name)
        try:
            path = self._directory.entry(name)
            manifest, secret = self._authenticated(path, name)
            if is_thorough:
                read_entry(path, secret, name, is_thorough=True)
        except OSError as error:
            if not self._directory.exists(name):
                return None
            damage = error.strerror or str(error)
        except Error as error:
            damage = str(error)
        return EntryStatus(key=name, size_bytes=size, last_use_s=last_use, manifest=manifest, damage=damage)

    def _authenticated(self, path: str, name: str) -> tuple[Manifest, bytes]:
        """Returns the manifest of an entry, also a driver's, and the secret to verify it.

        Raises:
            BadData, OutOfMemory, OSError: see `read_manifest`.
        """
        try:
            return read_manifest(path, self._secret, name), self._secret
        except BadData:
            owner = claimed_owner(path)
            # A secret that is derived itself leads to no other one.
            if not owner or self._owner:
                raise
            secret = derived_secret(self._secret, owner)
            return read_manifest(path, secret, name), secret

    def prune(self, *, limit_bytes: int | None = None, unused_s: float | None = None) -> list[str]:
        """Removes abandoned drafts and surplus or old entries; returns the keys of the entries.

        Args:
            limit_bytes: maximum size that remains; the least recently used entries are removed
                first.
            unused_s: entries not used for this many seconds are removed.
        """
        self._directory.sweep(age_s=0.0)
        removed = []
        if unused_s is not None:
            since = time.time() - unused_s
            old = [name for name in self._directory.names() if self._directory.last_use_s(name) <= since]
            removed += [name for name in old if self.remove(name)]
        if limit_bytes is not None:
            removed += self._directory.shrink(limit_bytes)
        return removed
