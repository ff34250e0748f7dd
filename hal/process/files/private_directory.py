"""Directories for sockets, caches and secrets in which no other user can replace anything.

A path is only as safe as each directory on the way to it: a user who may write in one of them can
replace the next one by another directory or a symbolic link. So every step is checked, links
included, before anything is created or changed at the end of the path.
"""

import errno
import os
import stat
from collections import deque
from pathlib import Path

from neurald.hal.errors import BadState

_MAX_LINKS = 40  # as in the kernel
_OWN_USERS = Path("/proc/self/uid_map")
_OVERFLOW_USER = Path("/proc/sys/kernel/overflowuid")
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_directory(directory: Path) -> None:
    """Creates a directory and its missing parents, each accessible to its user only.

    Raises:
        OSError: one cannot be created.
    """
    missing = []
    for each in (directory, *directory.parents):
        if each.exists():
            break
        missing.append(each)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")


def open_private(directory: Path, *, may_be_link: bool) -> int:
    """Opens a directory in which no other user can replace files, and that none can replace.

    The directory, and every directory and link on the way to it, belongs to this user or root.
    Others may write to none of them, except to those where only owners may remove files (such as
    `/tmp`).

    Args:
        directory: absolute.
        may_be_link: whether the last part may be a symbolic link of this user or root. The parts
            before it always may.

    Returns:
        A descriptor of the directory.

    Raises:
        BadState: another user could replace a part; the message says which.
        OSError: there is no such directory.
    """
    real = _checked(directory, may_be_link=may_be_link)
    descriptor = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check(real, os.fstat(descriptor), _OTHERS_MAY_WRITE)
    except BadState:
        os.close(descriptor)
        raise
    return descriptor


def _checked(path: Path, *, may_be_link: bool) -> Path:
    """Resolves the links of a path; raises BadState if another user could replace a part of it."""
    here = Path("/")
    parts = deque(path.parts[1:])
    links = 0
    while parts:
        status = here.lstat()
        _check(here, status, _writers_above(status))
        part = parts.popleft()
        if part == "..":
            here = here.parent
            continue
        status = (here / part).lstat()
        if not stat.S_ISLNK(status.st_mode):
            here /= part
            continue
        links += 1
        if not _is_trusted(status.st_uid) or links > _MAX_LINKS or not (parts or may_be_link):
            raise BadState(
                f"{here / part} is a symbolic link of user {status.st_uid}; a directory of your own is expected "
                "there"
            )
        target = (here / part).readlink()
        here = Path("/") if target.is_absolute() else here
        parts.extendleft(reversed(target.parts[1:] if target.is_absolute() else target.parts))
    return here


def _writers_above(status: os.stat_result) -> int:
    """Returns the write permissions that a parent directory must not have.

    Many systems give each user a group, and let the group write.
    """
    is_own_group = status.st_gid == os.getegid() == os.geteuid()
    is_of_root = status.st_uid == 0 and status.st_gid == 0
    return stat.S_IWOTH if is_own_group or is_of_root else _OTHERS_MAY_WRITE


def _check(directory: Path, status: os.stat_result, forbidden: int) -> None:
    """Raises BadState if other users may replace entries of a directory."""
    if not _is_trusted(status.st_uid):
        raise BadState(
            f"{directory} belongs to user {status.st_uid}; "
            f"a directory of your own (user {os.geteuid()}) or of root is expected"
        )
    if status.st_mode & forbidden and not status.st_mode & stat.S_ISVTX:
        raise BadState(
            f"{directory} can be written by other users; a socket needs a directory that is yours, "
            "below directories that are yours or root's (chmod 700)"
        )


def _is_trusted(user: int) -> bool:
    """Returns whether a user has power over this one anyway, or is outside of this namespace."""
    return user in (os.geteuid(), 0) or _is_unseen(user)


def _is_unseen(user: int, own_users: Path = _OWN_USERS, overflow_user: Path = _OVERFLOW_USER) -> bool:
    """Returns whether a number stands for all users outside of this namespace, root among them.

    No user within the namespace can become such a user. In the first namespace, and in each one
    that maps all users, that number is a user like any other: `nobody`.

    Args:
        user: the number.
        own_users: the file in which the kernel lists the users of this namespace: the first one,
            the one outside, and how many.
        overflow_user: the file with the number that stands for all others.
    """
    try:
        if user != int(overflow_user.read_text(encoding="ascii")):
            return False
        ranges = [[int(text) for text in line.split()] for line in own_users.read_text("ascii").splitlines()]
    except (OSError, ValueError):
        return False
    return not any(first <= user < first + count for first, _, count in ranges)


def open_private_file(path: str, flags: int) -> int:
    """Opens a regular file that only its user may read, for the argument `opener`.

    A link is not followed, and a pipe is not waited for.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return descriptor
