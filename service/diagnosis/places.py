"""Examines the directories and files that neurald uses."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from neurald.hal.cache.secret import secret_path
from neurald.hal.cache.store import Cache, default_directory, max_bytes_from_environment
from neurald.hal.errors import BadState
from neurald.hal.process.files.private_directory import open_private
from neurald.hal.process.files.runtime_directory import machine_directory, machine_user, runtime_directory
from neurald.hal.process.files.user_directories import cache_directory
from neurald.hal.wording import sized
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.sandbox.writable_paths import require_protected

#: A disk with less free space fills up soon.
_LITTLE_SPACE_BYTES: Final = 256 << 20


def examine_places() -> Iterator[Finding]:
    """Yields the state of the runtime directory, the cache, and the installation's secret."""
    yield _runtime()
    if machine_directory() != runtime_directory():
        yield from _machine()
    yield _secret()
    yield _cache()
    yield from _unprotected()


def _unprotected() -> Iterator[Finding]:
    """Yields a problem if drivers could change what they must not."""
    for path, severity, advice in (
        (cache_directory(), Severity.PROBLEM, "until then no driver starts, unless without a sandbox"),
        (runtime_directory(), Severity.WARNING, "the sandbox of drivers does not protect it there"),
    ):
        try:
            require_protected([path])
        except BadState as error:
            yield Finding(subject="places of drivers", found=_text(error), severity=severity, advice=advice)


def _runtime() -> Finding:
    directory = runtime_directory()
    there = _existing(directory)
    try:
        os.close(open_private(there, may_be_link=there != directory))
        _require_writable(there, directory)
    except (BadState, OSError) as error:
        return Finding(
            subject="runtime directory",
            found=_text(error),
            severity=Severity.PROBLEM,
            advice="set XDG_RUNTIME_DIR to a directory of your own with mode 0700, or mend that one; without it "
            "there are no drivers in processes of their own",
        )
    return Finding(subject="runtime directory", found=str(directory))


def _machine() -> Iterator[Finding]:
    """Yields the state of the machine's service, if there is one."""
    directory = machine_directory()
    if machine_user() is None:
        if directory.exists():
            yield Finding(
                subject="machine's service",
                found=f"{directory} is ignored, since other users could replace what is in it",
                severity=Severity.WARNING,
                advice="`neurald install-service --system` sets it up",
            )
        return
    try:
        sockets = [each.name for each in directory.iterdir() if each.suffix == ".sock"]
    except OSError as error:
        yield Finding(
            subject="machine's service",
            found=_text(error),
            severity=Severity.NOTE,
            advice="an administrator can add you to the group that owns the directory, or to `users`",
        )
        return
    yield Finding(subject="machine's service", found=f"{directory}, {len(sockets)} sockets")


def _secret() -> Finding:
    subject = "secret"
    advice = "nothing is cached without it; set XDG_STATE_HOME or NEURALD_SECRET_FILE to a place of your own"
    try:
        path = secret_path()
        there = _existing(path)
        if there == path:
            status = path.stat()
            return Finding.judged(
                subject,
                f"{path}, of user {status.st_uid}, mode {status.st_mode & 0o777:04o}",
                is_right=status.st_uid == os.geteuid() and not status.st_mode & 0o077,
                severity=Severity.PROBLEM,
                advice=f"it must be yours alone (`chmod 600`); {advice}",
            )
        _require_writable(there, path)
    except (BadState, OSError) as error:
        return Finding(subject=subject, found=_text(error), severity=Severity.PROBLEM, advice=advice)
    return Finding(subject=subject, found=f"{path} is made when it is needed")


def _cache() -> Finding:
    subject = "cache"
    advice = "models are compiled in each process without it; set XDG_CACHE_HOME to a directory of your own"
    try:
        directory, limit = default_directory(), max_bytes_from_environment()
        there = _existing(directory)
        _require_writable(there, directory)
        free = shutil.disk_usage(there).free
        entries = Cache(directory).entries() if there == directory else []
    except (BadState, OSError) as error:
        return Finding(subject=subject, found=_text(error), severity=Severity.PROBLEM, advice=advice)
    size = sum(each.size_bytes for each in entries)
    found = f"{directory}, {len(entries)} entries, {sized(size)} of {sized(limit)}; {sized(free)} free on the disk"
    return Finding.judged(
        subject,
        found,
        is_right=free >= _LITTLE_SPACE_BYTES,
        severity=Severity.WARNING,
        advice="make room, or set NEURALD_CACHE_MAX_BYTES or XDG_CACHE_HOME; `neurald cache prune` removes entries",
    )


def _existing(path: Path) -> Path:
    """Returns the path, or its closest parent that exists."""
    return next(each for each in (path, *path.parents) if os.path.exists(each))  # noqa: PTH110 - never raises


def _require_writable(there: Path, path: Path) -> None:
    """Raises BadState if a path cannot be made or changed; `there` is its part that exists."""
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    missing = "" if there == path else f"{path} does not exist, and "
    raise BadState(f"{missing}{there} {'cannot be written to' if there.is_dir() else 'is not a directory'}")


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
