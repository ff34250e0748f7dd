"""Delegates of LiteRT are native libraries with its own interface: they are refused."""

import os
from collections.abc import Mapping
from typing import Any


class Delegate:
    """A delegate, which cannot be loaded.

    Args:
        library: the file name of a native library.
        options: of the delegate.

    Raises:
        ValueError: always.
    """

    def __init__(self, library: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        del options
        raise ValueError(
            f"Failed to load delegate from {os.fspath(library)}\nneurald runs no delegates of LiteRT; "
            "devices are reached through drivers, see neurald.devices()"
        )


def load_delegate(library: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Delegate:
    """Refuses to load a delegate.

    Raises:
        ValueError: always.
    """
    return Delegate(library, options)
