"""The files of the user that a worker reads, besides those that drivers read.

The sandbox of a worker has the files that were there when it was entered. One that was written
since then, which usually is another file of the same name, cannot be read.
"""

import contextlib
import os
from pathlib import Path

from neurald.hal.cache.secret import secret_path
from neurald.hal.crashes.wrong_results import wrong_results_path
from neurald.hal.errors import Error
from neurald.hal.process.files.configuration_file import configuration_path


def read_files() -> list[Path]:
    """Returns their paths: a worker finds devices, and uses the cache."""
    found = _changing_files()
    with contextlib.suppress(Error):
        found.append(secret_path())
    return found


def read_state() -> tuple[object, ...]:
    """Returns a value that changes when one of them is written, made or removed.

    The installation's secret, which usually is never written again, is not among them.
    """
    return tuple(_state(path) for path in _changing_files())


def _changing_files() -> list[Path]:
    found = [configuration_path()[0]]
    # A user without a home directory has no other.
    with contextlib.suppress(Error):
        found.append(wrong_results_path())
    return found


def _state(path: Path) -> object:
    try:
        status = os.stat(path)  # noqa: PTH116 - for the speed
    except OSError:
        return path
    return path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
