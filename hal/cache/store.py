"""The compilation cache: what devices have compiled, on disk, so that it is compiled once.

A cache is a directory. Each entry is a directory in it, named by its key (`neurald.hal.cache.key`, `neurald.hal.cache.entry`).
These rules make it safe to share between processes, some of which may be killed at any moment:

- An entry is written under another name, and then renamed: it is there whole, or not at all. After a crash of the system it may
  be there in part, which its digests tell. A writer holds a lock on its draft, so that drafts of dead writers can be told apart
  and are swept.
- An entry is removed by renaming it away first. Who has opened it already reads on, or finds a file missing, and that is a miss.
- Whatever is wrong with an entry is a miss, with a reason for people. It is never an error.
- Of several that miss the same key, one compiles, and the others wait a limited time for what it stores.
- After an entry was written, those whose last use is longest ago go until the cache is as small as it is to be.
"""

import contextlib
import heapq
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from neurald.hal.cache.constant_digests import KnownConstants
from neurald.hal.cache.directory import CacheDirectory
from neurald.hal.cache.entry import (
    MANIFEST,
    Manifest,
    Origin,
    check_counts,
    read_artifact,
    read_manifest,
    write_entry,
)
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.secret import installation_secret
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.errors import BadData, BadState, Error, OpFailed

#: How large a cache may become, in bytes.
LIMIT_VARIABLE = "NEURALD_CACHE_MAX_BYTES"
LIMIT_BYTES = 2 << 30

_LOCKS = "locks"
#: How many entries are looked at for why there is none.
_COMPARED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Why there is nothing to be had from the cache."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An artifact from the cache, and what it is."""

    artifact: Artifact
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryStatus:
    """An entry as it lies on disk.

    Attributes:
        key: in hexadecimal.
        last_use_s: on the clock of `time.time()`.
        manifest: None where it cannot be believed.
        damage: what is wrong with the entry; "" if nothing is.
    """

    key: str
    size_bytes: int
    last_use_s: float
    manifest: Manifest | None
    damage: str = ""


def default_directory() -> Path:
    """The cache of this user, below `$XDG_CACHE_HOME`.

    Raises:
        BadState: the user has no home, so that there is no place for it.
    """
    path = platformdirs.user_cache_path("neurald")
    if not path.is_absolute():
        raise BadState(f"there is no place for a cache: {path} is not absolute (no HOME?)")
    return path


def limit_from_environment() -> int:
    """How large a cache may become.

    Raises:
        BadState: the variable holds no such number.
    """
    text = os.environ.get(LIMIT_VARIABLE, "")
    if not text:
        return LIMIT_BYTES
    if not (text.isascii() and text.isdigit()):
        raise BadState(f"{LIMIT_VARIABLE} is {text!r}; a number of bytes is expected")
    return int(text)


class Cache:
    """The cache in a directory. Thread-safe, and safe beside other processes.

    Args:
        path: of the directory, which is made when there is something to store.
        limit_bytes: how large it may become; None for what the environment says.

    Attributes:
        constants: what is known of models' constants.

    Raises:
        BadState: the directory is not the user's own, or there is no installation's secret.
    """

    def __init__(self, path: Path, limit_bytes: int | None = None) -> None:
        self.limit_bytes = limit_from_environment() if limit_bytes is None else limit_bytes
        self._secret = installation_secret()
        self._directory = CacheDirectory(path)
        self.constants = KnownConstants(self._directory, self._secret)

    @property
    def path(self) -> Path:
        """Of the directory."""
        return self._directory.path

    def load(self, key: bytes, needed: CacheFilesNeeded) -> Loaded | Miss:
        """The artifact of a key, verified.

        All of it is in memory that nobody can change. What only decides about values is not hashed again where its file
        has not changed since it was verified.

        Args:
            key: see `neurald.hal.cache.key`.
            needed: by the device that it is for.
        """
        name = key.hex()
        try:
            with self._directory.opened(name) as entry:
                manifest = read_manifest(entry, self._secret, name)
                check_counts(manifest, needed)
                artifact = read_artifact(entry, manifest, self._secret)
                # What the use of an entry is remembered by; a cache that cannot be written is used all the same.
                with contextlib.suppress(OSError):
                    os.utime(MANIFEST, dir_fd=entry, follow_symlinks=False)
                return Loaded(artifact=artifact, manifest=manifest)
        except FileNotFoundError:
            return Miss(reason="the entry is not complete" if self._directory.exists(name) else "")
        except OSError as error:
            return Miss(reason=f"the entry cannot be read: {error.strerror or error}")
        except Error as error:
            return Miss(reason=f"the entry cannot be used: {error}")

    def why_missing(self, parts: KeyParts) -> str:
        """Why there is no entry for these parts, as far as the other entries of the device tell."""
        nearest: tuple[str, ...] | None = None
        for name in heapq.nlargest(_COMPARED, self._directory.names(), self._directory.last_use_s):
            status = self._status(name, is_thorough=False)
            earlier = None if status is None or status.manifest is None else status.manifest.parts
            # What was compiled for some shapes is no earlier version of the whole, nor of what is for others.
            if earlier is None or (earlier.device, earlier.variant) != (parts.device, parts.variant):
                continue
            if earlier.graphs == parts.graphs or (parts.token and earlier.token == parts.token):
                changes = parts.changes_since(earlier)
                if nearest is None or len(changes) < len(nearest):
                    nearest = changes
        return "; ".join(nearest) if nearest else "first use"

    @contextlib.contextmanager
    def lock(self, key: bytes, timeout_s: float) -> Iterator[bool]:
        """Waits until nobody else compiles for this key, but not for longer than `timeout_s`.

        Yields:
            Whether the lock is held. It is let go at the end of the block, or of the process.
        """
        from filelock import FileLock, Timeout  # slow to import, and whoever finds an entry needs none

        locks = self.path / _LOCKS
        # Few enough files that they need not be removed, and enough that two keys hardly ever share one.
        lock = FileLock(locks / key.hex()[:3], mode=0o600, thread_local=False)
        try:
            self._directory.make()
            locks.mkdir(mode=0o700, exist_ok=True)
            lock.acquire(timeout=max(0.0, timeout_s))
        except (OSError, Timeout, Error):
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def store(self, parts: KeyParts, artifact: Artifact, origin: Origin) -> None:
        """Keeps an artifact, in place of one of the same key.

        Raises:
            BadData: it is larger than the whole cache may be.
            BadState: the directory is not the user's own.
            OpFailed: it cannot be written.
        """
        size = sum(memory.size for memory in (*artifact.model, *artifact.data)) + len(artifact.seal)
        if size > self.limit_bytes:
            raise BadData(f"it has {size} bytes; the cache may have {self.limit_bytes} ({LIMIT_VARIABLE})")
        name = parts.key().hex()
        try:
            self._directory.make()
            self._directory.sweep()
            self._directory.shrink(self.limit_bytes - size, keep=name)
            with self._directory.draft(name) as entry:
                write_entry(entry, self._secret, parts, artifact, origin)
            self._directory.shrink(self.limit_bytes, keep=name)
        except OSError as error:
            raise OpFailed(f"the cache {self.path}: {error.strerror or error}") from None

    def remove(self, name: str) -> bool:
        """Removes the entry of a key, in hexadecimal; whether there was one, and it could be removed."""
        return self._directory.remove(name)

    def entries(self) -> list[EntryStatus]:
        """All entries, in no order. Manifests are verified, the other files are not read."""
        return self._statuses(is_thorough=False)

    def verify(self) -> list[EntryStatus]:
        """All entries, in no order, each of them read and checked as for its use."""
        return self._statuses(is_thorough=True)

    def _statuses(self, *, is_thorough: bool) -> list[EntryStatus]:
        found = (self._status(name, is_thorough=is_thorough) for name in self._directory.names())
        return [status for status in found if status is not None]

    def _status(self, name: str, *, is_thorough: bool) -> EntryStatus | None:
        """The state of an entry; None if it is gone by now."""
        manifest, damage = None, ""
        size, last_use = self._directory.size_bytes(name), self._directory.last_use_s(name)
        try:
            with self._directory.opened(name) as entry:
                manifest = read_manifest(entry, self._secret, name)
                if is_thorough:
                    read_artifact(entry, manifest, self._secret, is_thorough=True)
        except OSError as error:
            if not self._directory.exists(name):
                return None
            damage = error.strerror or str(error)
        except Error as error:
            damage = str(error)
        return EntryStatus(key=name, size_bytes=size, last_use_s=last_use, manifest=manifest, damage=damage)

    def prune(self, *, limit_bytes: int | None = None, unused_s: float | None = None) -> list[str]:
        """Removes what dead writers left, and the entries that are too many or too old; the keys of these.

        Args:
            limit_bytes: entries go, those whose last use is longest ago first, until the rest has no more bytes than this.
            unused_s: entries that were not used for this long go.
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
