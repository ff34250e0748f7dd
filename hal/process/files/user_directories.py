"""The directories for this user's files, as the XDG Base Directory Specification defines them."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Final

from neurald.hal.process.environment import environment_variable

#: Everything below these directories is in a folder of this name.
_NAME: Final = "neurald"


def cache_directory() -> Path:
    """Returns the directory for files that can be created again."""
    return _directory("XDG_CACHE_HOME", "~/.cache")


def state_directory() -> Path:
    """Returns the directory for files that last and belong to this machine."""
    return _directory("XDG_STATE_HOME", "~/.local/state")


def configuration_directory() -> Path:
    """Returns the directory for files that the user writes."""
    return _directory("XDG_CONFIG_HOME", "~/.config")


def _directory(variable: str, default: str) -> Path:
    named = environment_variable(variable) or ""
    # Paths that are not absolute are to be ignored.
    return _below(named) if named.startswith("/") else _below_home(default, environment_variable("HOME"))


# Paths are created rarely, since that takes as long as looking for a file.


@lru_cache(maxsize=8)
def _below(base: str) -> Path:
    return Path(base) / _NAME


@lru_cache(maxsize=8)
def _below_home(default: str, home: str | None) -> Path:
    """Returns a directory in the home directory, which the environment has if `home` is not None.

    Without a home directory "~" stays, and the result is not absolute.
    """
    return _below(os.path.expanduser(default))  # noqa: PTH111 - never raises
