"""Landlock: restricts the files, TCP ports and other processes that a process may access.

Linux has had it since version 5.13. Its own versions ("ABIs") add rights; a right that a version
does not know is not restricted. It applies to the calling thread, and to threads and processes that
are started afterwards. See https://docs.kernel.org/userspace-api/landlock.html.
"""

import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from neurald.service.sandbox.kernel import system_call

# The numbers are the same on all machines.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION = 1
_PATH_BENEATH, _NET_PORT = 1, 2

_WRITE_FILE, _READ_FILE, _READ_DIRECTORY, _TRUNCATE, _IOCTL_DEV = 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_REMOVE_DIRECTORY, _REMOVE_FILE, _MAKE_DEVICE = 1 << 4, 1 << 5, 1 << 6 | 1 << 11
_MAKE = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12  # directories, files, sockets, pipes and links
_REFER = 1 << 13
#: The rights that each version added. Executing is not restricted.
_RIGHTS_BY_VERSION = {
    1: _READ_FILE | _READ_DIRECTORY | _WRITE_FILE | _REMOVE_DIRECTORY | _REMOVE_FILE | _MAKE_DEVICE | _MAKE,
    2: _REFER,
    3: _TRUNCATE,
    5: _IOCTL_DEV,
}
_OF_FILES = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_BIND_TCP, _CONNECT_TCP = 1, 2
_NET_SINCE = 4
_ABSTRACT_UNIX_SOCKETS, _SIGNALS = 1, 2
_SCOPES_SINCE = 6


def version() -> int:
    """Returns the version that this kernel supports; 0 if it does not support Landlock."""
    try:
        return system_call(_CREATE_RULESET, None, 0, _GET_VERSION)
    except OSError:
        return 0


def restrict(
    landlock: int,
    writable: Iterable[Path],
    readable: Iterable[Path],
    ports: Iterable[int],
    *,
    listable: Iterable[Path] = (),
    emptied: Iterable[Path] = (),
) -> None:
    """Restricts this thread and its children permanently. PR_SET_NO_NEW_PRIVS must be set.

    Afterwards they can write only to `writable`, read only that and `readable`, and listen only on
    `ports`. They cannot connect
    over TCP or abstract UNIX sockets, and can send signals only to themselves and their children.

    Args:
        landlock: the version to use.
        writable: directories, whose contents are writable, files, and devices, which also accept
            control calls (ioctl). Missing paths are ignored.
        readable: directories, whose contents are readable, and files.
        ports: TCP ports; 0 for any port that the kernel chooses.
        listable: directories whose entries, and those of the directories below, may be listed.
        emptied: directories from which empty directories may be removed.

    Raises:
        OSError: the kernel refuses.
    """
    rights = sum(right for since, right in _RIGHTS_BY_VERSION.items() if since <= landlock)
    network = _BIND_TCP | _CONNECT_TCP if landlock >= _NET_SINCE else 0
    scopes = _ABSTRACT_UNIX_SOCKETS | _SIGNALS if landlock >= _SCOPES_SINCE else 0
    attributes = struct.pack("=QQQ", rights, network, scopes)
    size = 24 if landlock >= _SCOPES_SINCE else 16 if landlock >= _NET_SINCE else 8
    rules = system_call(_CREATE_RULESET, attributes[:size], size, 0)
    try:
        for path in writable:
            _allow(rules, path, rights & ~_MAKE_DEVICE)
        for path in readable:
            _allow(rules, path, _READ_FILE | _READ_DIRECTORY)
        for path in listable:
            _allow(rules, path, _READ_DIRECTORY)
        for path in emptied:
            _allow(rules, path, _REMOVE_DIRECTORY)
        if network:
            for port in ports:
                system_call(_ADD_RULE, rules, _NET_PORT, struct.pack("=QQ", _BIND_TCP, port), 0)
        system_call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        system_call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
