"""Finds what the links in folders of modules point to.

Some installers keep packages elsewhere and link them, or each of their files, into the folder in
which Python looks for modules. uv does so with `--link-mode symlink`.
"""

import os
from collections.abc import Iterator
from pathlib import Path


def linked_paths(folder: Path) -> set[Path]:
    """Returns the files and directories that the modules and packages of a folder are links to.

    Where the files of a package are links to a directory of the same name, the set has this
    directory, in which the subpackages are, too.

    Args:
        folder: a folder of modules; nothing is found if it cannot be read.
    """
    found: set[Path] = set()
    for entry in _entries(folder):
        if entry.is_symlink():
            found.add(Path(entry.path).resolve())
        elif entry.is_dir():
            found.update(_linked_package(Path(entry.path)))
    return found


def _linked_package(package: Path) -> Iterator[Path]:
    """Yields what the entries of a package are links to."""
    entries = list(_entries(package))
    for entry in entries:
        if entry.is_symlink():
            target = Path(entry.path).resolve()
            is_part = target.parent.name == package.name and not target.is_dir()
            yield target.parent if is_part else target
    # A namespace package consists of directories only.
    if all(entry.is_dir(follow_symlinks=False) for entry in entries):
        for entry in entries:
            yield from _linked_package(Path(entry.path))


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:  # it does not exist, or may not be read
        return
