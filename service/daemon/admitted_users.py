"""Reads whom an operator admits to a daemon: names or numbers of users and groups, and a mode."""

import grp
import pwd
import re
from collections.abc import Callable, Iterable
from typing import Final

from neurald.hal.admission.access.sharing import Sharing
from neurald.hal.errors import BadData

_MODE: Final = re.compile(r"0?[0-7]{3}")
#: Permissions to execute mean nothing for a socket, and connecting takes the one to write.
_MEANINGFUL: Final = 0o666
_MAX_NUMBER: Final = 0xFFFF_FFFE


def sharing_of(users: Iterable[str | int], groups: Iterable[str | int], socket_mode: str) -> Sharing:
    """Returns whom a daemon serves.

    Args:
        users: names or numbers.
        groups: names or numbers.
        socket_mode: permissions of the socket's file, in octal.

    Raises:
        BadData: there is no such user or group, or the mode is not valid; the message says which.
    """
    return Sharing(
        users=frozenset(_number(user, "user", lambda name: pwd.getpwnam(name).pw_uid) for user in users),
        groups=frozenset(group_number(group) for group in groups),
        socket_mode=_mode(socket_mode),
    )


def group_number(group: str | int) -> int:
    """Returns the number of a group.

    Raises:
        BadData: there is no such group.
    """
    return _number(group, "group", lambda name: grp.getgrnam(name).gr_gid)


def _number(given: str | int, kind: str, find: Callable[[str], int]) -> int:
    text = str(given)
    if text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= _MAX_NUMBER:
        return int(text)
    if isinstance(given, str) and given and "\0" not in given:
        try:
            return find(given)
        except KeyError:
            pass
    raise BadData(f"there is no {kind} {given!r} on this machine; create it, or name another")


def _mode(text: str) -> int:
    mode = int(text, 8) if _MODE.fullmatch(text) else 0
    if mode & 0o600 != 0o600 or mode & ~_MEANINGFUL:
        raise BadData(
            f"{text!r} is not the mode of a socket; 0600 (its user alone), 0660 (and a group) or 0666 (everyone "
            "may connect) is expected"
        )
    return mode
