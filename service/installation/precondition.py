"""Checks the conditions under which systemd can run the service manager."""

import stat
from collections.abc import Iterable
from pathlib import Path

from neurald.hal.errors import BadState


def require_public(paths: Iterable[Path], user: str) -> None:
    """Raises an error if a user whom nothing here belongs to cannot read files.

    Args:
        paths: the paths of the files and folders.
        user: the user for the message.

    Raises:
        BadState: it cannot; the message says what is in the way.
    """
    for path in paths:
        for each in (path, *path.parents):
            try:
                mode = each.stat().st_mode
            except OSError as error:
                raise BadState(f"{each} cannot be examined: {error.strerror or error}") from None
            wanted = stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
            if not mode & wanted:
                raise BadState(
                    f"the user {user}, as whom the service runs, may not use {path}: {each} has the mode "
                    f"{stat.S_IMODE(mode):04o}. Install neurald where everyone may read it, such as in a virtual "
                    "environment in /opt, whose Python is not in a home directory either"
                )
