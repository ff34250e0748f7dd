"""Delegates of LiteRT are native libraries with its own interface: they are refused."""

import os
from collections.abc import Mapping
from typing import Any


class DelegateRefused(ValueError, OSError):
    """A delegate was not loaded.

    LiteRT raises OSError if a library cannot be opened, and ValueError if it creates no delegate.
    Programs that continue without the delegate after either of them also continue after this.
    """


class Delegate:
    """A delegate, which cannot be loaded.

    Args:
        library: the file name of a native library.
        options: the options of the delegate.

    Raises:
        DelegateRefused: always.
    """

    def __init__(self, library: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        del options
        raise DelegateRefused(
            f"Failed to load delegate from {os.fspath(library)}\nneurald runs no delegates of LiteRT; "
            "devices are reached through drivers, see neurald.devices()"
        )


def load_delegate(library: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Delegate:
    """Refuses to load a delegate.

    Raises:
        DelegateRefused: always. It is a ValueError and an OSError.
    """
    return Delegate(library, options)
