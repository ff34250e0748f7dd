"""Faults of whole caches: a full disk, and killed writers."""

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from faults.field import Child, Field
from faults.scenarios.writer import CONSTANT_BYTES, CONSTANTS, MODELS, compile_and_check

import neurald as nd
from neurald.hal.cache.store import Cache

_WRITERS = 2
_REPORT_S = 120.0


def fill_disk(field: Field) -> None:
    """Places a cache on a disk that is too small for it, and whose free space changes."""
    with _small_disk(field) as (folder, limit_bytes):
        cache = folder / "cache"
        writers = [
            field.start(
                "scenarios.writer", field.address, cache, field.random.randrange(1 << 30), 6, limit_bytes
            )
            for _ in range(_WRITERS)
        ]
        for writer in writers:
            writer.wait_ready()
        ballast = folder / "ballast"
        for _ in range(4):
            with contextlib.suppress(OSError):
                ballast.write_bytes(bytes(field.random.randrange(1, CONSTANTS * CONSTANT_BYTES)))
            field.pause(0.0, 0.1)
            ballast.unlink(missing_ok=True)
        for writer in writers:
            report = writer.report(_REPORT_S)
            field.wrong += json.loads(report) if report else ["a writer hangs, or was ended by a full disk"]
        _check(field, cache)


@contextlib.contextmanager
def _small_disk(field: Field) -> Iterator[tuple[Path, int]]:
    """Yields a small folder, and the limit on a file's size there, 0 for none.

    It is a separate file system if this user may mount one.
    """
    whole = CONSTANTS * CONSTANT_BYTES
    folder = field.folder / "small"
    folder.mkdir()
    size = field.random.randrange(whole // 4, 4 * whole)
    mount = shutil.which("mount")
    command = [mount or "false", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    is_mounted = subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    try:
        yield folder, 0 if is_mounted else field.random.randrange(4 * CONSTANT_BYTES, whole)
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        shutil.rmtree(folder)


def kill_writers(field: Field) -> None:
    """Kills processes that fill a cache; what they leave must be complete, or be cleaned up."""
    cache = field.folder / "written"
    writers: list[Child] = [
        field.start("scenarios.writer", field.address, cache, field.random.randrange(1 << 30), 0, 0)
        for _ in range(_WRITERS)
    ]
    for writer in writers:
        writer.wait_ready()
    for writer in writers:
        field.pause(0.0, 0.3)
        writer.kill()
    _check(field, cache)


def _check(field: Field, folder: Path) -> None:
    """Checks that no entry is torn, no temporary file is left, and cached results are correct."""
    if not folder.exists():
        return
    cache = Cache(folder)
    for status in cache.verify():
        if status.damage:
            field.wrong.append(f"an entry of the cache is torn: {status.damage}")
    cache.prune()
    drafts = [path.name for path in folder.glob(".draft-*")]
    if drafts:
        field.wrong.append(f"drafts of dead writers stay: {drafts}")
    device = nd.connect(field.address)
    for number in field.random.sample(range(MODELS), 2):
        if wrong := compile_and_check(device, folder, number):
            field.wrong.append(f"from the cache: {wrong}")
