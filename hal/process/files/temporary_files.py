"""Finds the directory of temporary files, which a read-only container may not have."""

from pathlib import Path

from neurald.hal.process.environment import environment_variable

_USUAL = "/tmp"  # noqa: S108 - nothing is written there


def temporary_files() -> Path | None:
    """Returns the directory of temporary files; None if this process can write to none."""
    import tempfile  # slow to import

    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def named_temporary_files() -> Path:
    """Returns the directory that would have temporary files, whether or not it can be written."""
    return temporary_files() or Path(environment_variable("TMPDIR") or _USUAL)
