"""The directory of a cache; `neurald.hal.cache.store` has its rules."""

import contextlib
import fcntl
import math
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from neurald.hal.cache.entry import HEAD
from neurald.hal.cache.file import open_directory
from neurald.hal.errors import BadState, Error
from neurald.hal.process.files.private_directory import make_directory

# Compiled when they are used, which a start from the cache does not.
_ENTRY_DIGITS = 64
_ENTRY = rf"[0-9a-f]{{{_ENTRY_DIGITS}}}"
_DRAFT = r"\.draft-[0-9a-f]{16}"
#: Age in seconds after which a draft without a locked writer counts as abandoned.
_DRAFT_AGE_S = 60.0
#: How many directories a process remembers.
_MAX_KNOWN = 8


class _Known(Struct, kw_only=True):
    """The entries of a directory that this process knows, so that a store need not read all again.

    Attributes:
        sizes: number of the inode and size of each entry by name, when they were last listed.
        swept_s: when drafts were last looked for, on the clock of `time.monotonic()`.
    """

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    swept_s: float = -math.inf


#: The directories that this process has used, by path.
_known: dict[str, _Known] = {}


class CacheDirectory:
    """Entries by name, as directories. Safe for concurrent processes.

    Args:
        path: the path of the directory, which need not exist.

    Attributes:
        path, text: its path.

    Raises:
        BadState: the directory exists and does not belong to the user alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = str(path)
        try:
            self._check()
        except FileNotFoundError:
            return

    def _check(self) -> None:
        try:
            status = os.stat(self.text)  # noqa: PTH116 - for the speed
        except FileNotFoundError:
            raise
        except OSError as error:
            raise BadState(f"the cache {self.path} cannot be read: {error.strerror}") from None
        if not stat.S_ISDIR(status.st_mode):
            raise BadState(f"the cache {self.path} is not a directory; remove it, or name a directory")
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise BadState(
                f"the cache {self.path} can be written by other users; a directory that is yours is expected "
                "(chmod 700)"
            )

    def make(self) -> None:
        """Creates the directory if it does not exist.

        Raises:
            BadState: it does not belong to the user alone.
            OSError: it cannot be created.
        """
        make_directory(self.path)
        self._check()

    def has_entries(self) -> bool:
        """Returns False if there is no entry: the first one that is found is enough."""
        try:
            with os.scandir(self.text) as found:
                # What else is there has shorter names. A pattern takes longer to compile than that.
                return any(len(each.name) == _ENTRY_DIGITS for each in found)
        except OSError:
            return False

    def entry(self, name: str) -> str:
        """Returns the path of an entry, which need not exist."""
        return f"{self.text}/{name}"

    def exists(self, name: str) -> bool:
        """Returns True if anything of that name exists."""
        return os.path.lexists(self.path / name)

    def names(self) -> list[str]:
        """Returns the names of all entries, in no particular order."""
        return list(self.inodes())

    def inodes(self) -> dict[str, int]:
        """Returns the number of the inode of each entry by name; another entry has another one."""
        return self._matching(_ENTRY)

    def _matching(self, pattern: str) -> dict[str, int]:
        try:
            with os.scandir(self.text) as found:
                return {each.name: each.inode() for each in found if re.fullmatch(pattern, each.name)}
        except OSError:
            return {}

    def _remembered(self) -> _Known:
        known = _known.get(self.text)
        if known is None:
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            known = _known[self.text] = _Known()
        return known

    def size_bytes(self, name: str) -> int:
        """Returns the total size of an entry's files; 0 if it was removed meanwhile."""
        total = 0
        with contextlib.suppress(OSError), os.scandir(self.path / name) as files:
            for file in files:
                with contextlib.suppress(OSError):
                    total += file.stat(follow_symlinks=False).st_size
        return total

    def last_use_s(self, name: str) -> float:
        """Returns when an entry was last used, by `time.time()`; 0 if it is incomplete."""
        try:
            return (self.path / name / HEAD).lstat().st_mtime
        except OSError:
            return 0.0

    @contextlib.contextmanager
    def draft(self, name: str) -> Iterator[int]:
        """Opens a new directory that becomes the entry of that name at the end of the block.

        Raises:
            OSError: it cannot be created or published. Nothing is left behind.
        """
        path = self._draft_path()
        path.mkdir(mode=0o700)
        try:
            with _opened(path) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                yield descriptor
                self._publish(path, name)
        except BaseException:
            _remove_folder(path)
            raise

    def _draft_path(self) -> Path:
        return self.path / f".draft-{os.urandom(8).hex()}"

    def _publish(self, draft: Path, name: str) -> None:
        taken: list[Path] = []
        try:
            while True:
                try:
                    draft.rename(self.path / name)
                except OSError:
                    # Another entry has the name, and another writer may be replacing it at the same
                    # time.
                    earlier = self._take(name)
                    if earlier is None:
                        raise
                    taken.append(earlier)
                else:
                    # The number of the inode may be that of an earlier entry of this name.
                    self._remembered().sizes.pop(name, None)
                    return
        finally:
            for earlier in taken:
                _delete(earlier)

    def _take(self, name: str) -> Path | None:
        """Renames an entry so that it can be deleted.

        Returns:
            Its new path; None if there is no such entry or it cannot be renamed.
        """
        taken = self._draft_path()
        try:
            return (self.path / name).rename(taken)
        except OSError:
            return None

    def remove(self, name: str) -> bool:
        """Removes an entry; returns False if there is none or it cannot be removed."""
        taken = self._take(name)
        if taken is not None:
            _delete(taken)
        return taken is not None

    def shrink(self, limit_bytes: int, keep: str = "", *, is_estimate: bool = False) -> list[str]:
        """Removes the least recently used entries until the limit holds; returns their names.

        Args:
            limit_bytes: maximum total size of the remaining entries.
            keep: name of an entry that is never removed.
            is_estimate: whether entries count that were there when they were last listed, so that
                only a full cache is listed again.
        """
        if is_estimate and sum(size for _, size in self._remembered().sizes.values()) <= limit_bytes:
            return []
        sizes = self._sizes()
        total = sum(sizes.values())
        removed = []
        if total > limit_bytes:
            for name in sorted(sizes.keys() - {keep}, key=self.last_use_s):
                if total <= limit_bytes:
                    break
                if self.remove(name):
                    removed.append(name)
                total -= sizes[name]
        return removed

    def _sizes(self) -> dict[str, int]:
        """Returns the sizes of all entries, and looks only into those not listed before."""
        remembered = self._remembered()
        known, found = remembered.sizes, {}
        for name, inode in self.inodes().items():
            earlier = known.get(name)
            if earlier is None or earlier[0] != inode:
                earlier = inode, self.size_bytes(name)
            found[name] = earlier
        remembered.sizes = found
        return {name: size for name, (_, size) in found.items()}

    def sweep_at_times(self) -> None:
        """Removes drafts of dead writers, unless this process did so within the last minute."""
        if time.monotonic() - self._remembered().swept_s >= _DRAFT_AGE_S:
            self.sweep()

    def sweep(self, age_s: float = _DRAFT_AGE_S) -> None:
        """Removes drafts of dead writers that are older than `age_s`.

        The writer of a younger draft may not hold its lock yet. Drafts of single files have no
        lock, since they are written at once.
        """
        self._remembered().swept_s = time.monotonic()
        until = time.time() - age_s
        for name in self._matching(_DRAFT):
            path = self.path / name
            with contextlib.suppress(OSError, Error):
                status = path.lstat()
                if status.st_mtime > until:
                    continue
                if stat.S_ISREG(status.st_mode):
                    path.unlink()
                    continue
                with _opened(path) as descriptor:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _delete(path)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = open_directory(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _delete(path: Path) -> None:
    """Deletes a renamed entry, or a stray file or link in its place."""
    if path.is_symlink() or not path.is_dir():
        with contextlib.suppress(OSError):
            path.unlink()
    else:
        _remove_folder(path)


def _remove_folder(path: Path) -> None:
    import shutil  # slow to import, and not needed to read entries

    shutil.rmtree(path, ignore_errors=True)
