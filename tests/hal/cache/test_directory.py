"""Caches that are full, on full disks, and whose writers die."""

import errno
import fcntl
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.daemon.open_files import open_files
from support.devices.cached import NEEDED, ORIGIN, artifact, contents, entry_parts, stored
from support.waiting import wait_until

from neurald.hal.cache import entry as entry_file
from neurald.hal.cache.entry import HEAD, Manifest
from neurald.hal.cache.store import MAX_BYTES_VARIABLE, Cache, EntryStatus, Loaded, Miss
from neurald.hal.errors import BadData, OpFailed
from neurald.hal.memory.pool import HostMemory
from neurald.hal.records import replace

PARTS = entry_parts()
KEY = PARTS.key()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def numbered(number: int) -> bytes:
    return entry_parts(graphs=str(number)).key()


def fill(cache: Cache, count: int, size: int = 10_000) -> None:
    """Stores entries of that size, used one after another."""
    for number in range(count):
        cache.store(entry_parts(graphs=str(number)), artifact(bytes(size // 3)), ORIGIN)
        use(cache, number, 1000.0 + number)


def use(cache: Cache, number: int, second: float) -> None:
    os.utime(cache.path / numbered(number).hex() / HEAD, (second, second))


def kept(cache: Cache) -> set[int]:
    names = {path.name for path in cache.path.iterdir()}
    return {number for number in range(100) if numbered(number).hex() in names}


def test_a_cache_has_entries_once_one_is_stored(directory: Path) -> None:
    cache = Cache(directory)
    assert not cache.has_entries()
    for name in ("sources", "locks"):
        (directory / name).mkdir(parents=True, mode=0o700)
    assert not cache.has_entries()
    cache.store(PARTS, artifact(b"x"), ORIGIN)
    assert cache.has_entries()


def test_the_least_recently_used_goes_first(directory: Path) -> None:
    cache = Cache(directory, limit_bytes=45_000)
    fill(cache, 4)
    assert not isinstance(cache.load(numbered(0), NEEDED), Miss)
    use(cache, 0, 2000.0)
    cache.store(entry_parts(graphs="4"), artifact(bytes(3333)), ORIGIN)
    assert kept(cache) == {0, 2, 3, 4}
    cache.store(entry_parts(graphs="5"), artifact(bytes(6000)), ORIGIN)
    assert kept(cache) == {0, 4, 5}


def test_loading_counts_as_use(directory: Path) -> None:
    cache = Cache(directory)
    fill(cache, 1)
    before = time.time()
    cache.load(numbered(0), NEEDED)
    (status,) = cache.entries()
    assert status.last_use_s > before - 10


def test_never_more_than_the_limit(directory: Path) -> None:
    cache = Cache(directory, limit_bytes=35_000)
    for number in range(20):
        cache.store(entry_parts(graphs=str(number)), artifact(bytes(3333)), ORIGIN)
        assert sum(status.size_bytes for status in cache.entries()) <= 35_000
        assert number in kept(cache)
    assert len(kept(cache)) == 3


def test_the_limit_counts_what_others_store_and_replace(directory: Path) -> None:
    """Sizes are remembered between stores, but not those of changed entries."""
    cache = Cache(directory, limit_bytes=45_000)
    fill(cache, 3)
    other = directory / ".another process"
    shutil.copytree(directory / numbered(2).hex(), other)
    (other / "data0").write_bytes(bytes(25_000))
    shutil.rmtree(directory / numbered(2).hex())
    other.rename(directory / numbered(2).hex())
    shutil.copytree(directory / numbered(1).hex(), directory / numbered(9).hex())
    use(cache, 9, 1009.0)
    cache.store(entry_parts(graphs="4"), artifact(bytes(1000)), ORIGIN)
    assert kept(cache) == {4, 9}
    assert cache.why_missing(entry_parts(graphs="4", priority="HIGH")) == "priority changed from LOW to HIGH"


def test_storing_looks_into_each_entry_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of 1,000 steps stores 1,000 entries, each after asking why it was missing."""
    looked_into: Counter[str] = Counter()

    def scandir(path: str | Path) -> Any:
        looked_into["the directory" if Path(path) == directory else Path(path).name] += 1
        return real_scandir(path)

    def read_manifest(path: str, secret: bytes, key: str) -> Manifest:
        read[key] += 1
        return real_read(path, secret, key)

    read: Counter[str] = Counter()
    real_scandir, real_read = os.scandir, entry_file.read_manifest
    monkeypatch.setattr("neurald.hal.cache.directory.os.scandir", scandir)
    monkeypatch.setattr("neurald.hal.cache.store.read_manifest", read_manifest)
    count = 50
    for number in range(count):
        parts = entry_parts(token="44", graphs=str(number))
        # Each step of a plan has a cache of its own.
        assert Cache(directory).why_missing(parts) == (
            "the model's operations or operands changed" if number else "first use"
        )
        Cache(directory).store(parts, artifact(), ORIGIN)
    assert looked_into.pop("the directory") <= 3 * count
    assert len(looked_into) == count
    assert set(looked_into.values()) == {1}
    assert len(read) == count - 1
    assert set(read.values()) == {1}


def test_what_never_fits_is_not_stored_and_costs_nobody_his_place(directory: Path) -> None:
    cache = Cache(directory, limit_bytes=50_000)
    fill(cache, 3)
    with pytest.raises(BadData, match=MAX_BYTES_VARIABLE):
        cache.store(PARTS, artifact(bytes(50_000)), ORIGIN)
    assert kept(cache) == {0, 1, 2}


def test_the_limit_of_the_environment(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_BYTES_VARIABLE, "12345")
    assert Cache(directory).limit_bytes == 12345
    monkeypatch.setenv(MAX_BYTES_VARIABLE, "")
    assert Cache(directory).limit_bytes == 2 << 30


def test_damaged_entries_count_and_go_first(directory: Path) -> None:
    cache = Cache(directory, limit_bytes=45_000)
    fill(cache, 4)
    entry = directory / numbered(3).hex()
    (entry / HEAD).rename(entry / "data0")
    cache.store(entry_parts(graphs="4"), artifact(bytes(3333)), ORIGIN)
    assert kept(cache) == {0, 1, 2, 4}


def test_who_loads_while_entries_go_finds_them_whole_or_not_at_all(directory: Path) -> None:
    stored(directory, PARTS)
    whole = contents(Cache(directory).load(KEY, NEEDED))
    is_over = threading.Event()
    found = set()

    def load() -> None:
        while not is_over.is_set():
            found.add(contents(Cache(directory).load(KEY, NEEDED)))

    reader = threading.Thread(target=load)
    reader.start()
    for _ in range(100):
        Cache(directory).prune(limit_bytes=0)
        stored(directory, PARTS)
    is_over.set()
    reader.join()
    assert found <= {None, whole}


# Pruning and listing


def test_prune_by_size_and_by_age(directory: Path) -> None:
    cache = Cache(directory)
    fill(cache, 4)
    assert cache.prune() == []
    assert cache.prune(limit_bytes=25_000) == [numbered(0).hex(), numbered(1).hex()]
    assert cache.prune(unused_s=time.time() - 1002.5) == [numbered(2).hex()]
    assert kept(cache) == {3}
    assert cache.prune(limit_bytes=0) == [numbered(3).hex()]
    assert cache.entries() == []


def test_listing_and_verifying(directory: Path) -> None:
    cache = Cache(directory)
    assert cache.entries() == cache.verify() == []
    fill(cache, 3)
    with (directory / numbered(1).hex() / HEAD).open("ab") as file:
        file.write(b"changed")
    (directory / numbered(2).hex() / HEAD).write_bytes(b"changed")
    (directory / "0123").mkdir()

    def by_number(found: list[EntryStatus]) -> list[EntryStatus]:
        by_key = {status.key: status for status in found}
        return [by_key.pop(numbered(number).hex()) for number in range(3)]

    listed = by_number(cache.entries())
    assert [status.damage for status in listed[:2]] == ["", ""]
    assert listed[0].manifest is not None
    assert listed[0].manifest.origin == ORIGIN
    assert listed[0].size_bytes > 9_999
    assert listed[2].manifest is None
    assert listed[2].damage == "its manifest is damaged, or of another installation"
    verified = by_number(cache.verify())
    assert verified[0].damage == ""
    size = listed[1].size_bytes
    assert verified[1].damage == f"its head has {size} bytes; {size - 7} are expected"
    assert verified[2].damage == listed[2].damage


def test_why_there_is_none(directory: Path) -> None:
    cache = Cache(directory)
    assert cache.why_missing(PARTS) == "first use"
    cache.store(PARTS, artifact(), ORIGIN)
    assert cache.why_missing(entry_parts(device_version="2")) == "device version changed from 1 to 2"
    assert cache.why_missing(entry_parts(device="other")) == "first use"
    assert cache.why_missing(entry_parts(graphs="33")) == "first use"
    assert (
        cache.why_missing(entry_parts(constants="33", priority="HIGH"))
        == "the model's constants changed; priority changed from LOW to HIGH"
    )
    cache.store(entry_parts(token="44"), artifact(), ORIGIN)
    assert (
        cache.why_missing(entry_parts(token="44", graphs="33"))
        == "the model's operations or operands changed"
    )
    # The nearest one counts.
    assert cache.why_missing(entry_parts(constants="33")) == "the model's constants changed"
    assert cache.why_missing(entry_parts(token="55")) == "the caller's token changed"


# Disks


def test_a_full_disk_leaves_nothing_behind(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(directory, PARTS, b"old")
    old = contents(Cache(directory).load(KEY, NEEDED))
    written = 0

    def write(descriptor: int, content: bytes) -> int:
        nonlocal written
        written += len(content)
        if written > 30:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, content)

    real = os.write
    monkeypatch.setattr("neurald.hal.cache.file.os.write", write)
    with pytest.raises(OpFailed, match="No space left on device"):
        Cache(directory).store(PARTS, artifact(b"new"), ORIGIN)
    assert contents(Cache(directory).load(KEY, NEEDED)) == old
    assert [path.name for path in directory.iterdir()] == [KEY.hex()]


def test_files_that_may_not_grow(directory: Path) -> None:
    """The kernel's limit of file sizes, in a separate process."""
    program = """
import resource, sys
from pathlib import Path
from support.devices.cached import ORIGIN, artifact, entry_parts
from neurald.hal.cache.store import Cache
from neurald.hal.errors import OpFailed
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    Cache(Path(sys.argv[1])).store(entry_parts(), artifact(bytes(100_000)), ORIGIN)
except OpFailed as error:
    print(error)
"""
    Cache(directory)  # the secret is there already
    said = subprocess.run(
        [sys.executable, "-c", program, str(directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert "File too large" in said.stdout
    assert list(directory.iterdir()) == []


def test_a_short_write_is_completed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(
        "neurald.hal.cache.file.os.write", lambda descriptor, content: real(descriptor, content[:3])
    )
    stored(directory, PARTS)
    assert contents(Cache(directory).load(KEY, NEEDED)) is not None


def test_descriptors_are_closed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(directory)
    cache.store(PARTS, replace(artifact(), data=(HostMemory(bytes(1 << 17)),)), ORIGIN)
    entry = directory / KEY.hex()
    before = open_files()
    for _ in range(5):
        assert isinstance(cache.load(KEY, NEEDED), Loaded)
    with cache.lock(KEY, 1.0):
        pass
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    # There is one number left, for the head, and then for the directory, but not for its data.
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, limit[1]))
    try:
        assert isinstance(cache.load(KEY, NEEDED), Miss)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    with (entry / HEAD).open("ab") as file:
        file.write(b"x")
    assert isinstance(cache.load(KEY, NEEDED), Miss)
    monkeypatch.setattr("neurald.hal.cache.file.os.write", lambda *_: os.close(-1))
    with pytest.raises(OpFailed):
        cache.store(PARTS, artifact(), ORIGIN)
    wait_until(lambda: not open_files() - before)


# Writers that die


WRITER = """
import sys
from pathlib import Path
from support.devices.cached import ORIGIN, artifact, entry_parts
from neurald.hal.cache.store import Cache
print("ready", flush=True)
while True:
    for content in (b"a", b"b"):
        Cache(Path(sys.argv[1])).store(entry_parts(), artifact(content * 100_000), ORIGIN)
        print("stored", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kill_ms", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55])
def test_killed_while_it_writes(directory: Path, kill_ms: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline() == "ready\n"
        assert writer.stdout.readline() == "stored\n"
        # At a moment that differs from run to run; any moment must do.
        time.sleep(kill_ms / 1000)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    cache = Cache(directory)
    found = contents(cache.load(KEY, NEEDED))
    expected = [contents_of(letter * 100_000) for letter in (b"a", b"b")]
    # Between the old entry's end and the new one's name there is none.
    assert found in (*expected, None)
    cache.store(PARTS, artifact(), ORIGIN)
    assert contents(cache.load(KEY, NEEDED)) == contents_of(b"content")
    cache.prune()
    assert [path.name for path in directory.iterdir()] == [KEY.hex()]


def contents_of(content: bytes) -> tuple[bytes, ...]:
    return b"model " + content, b"more " + content, b"data " + content, b"seal"


def test_only_drafts_of_dead_writers_are_swept(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    old, young, held = (directory / f".draft-{number:016x}" for number in range(3))
    for path in (old, young, held):
        path.mkdir()
        (path / "model0").write_bytes(b"x")
    for path in (old, held):
        os.utime(path, (1000.0, 1000.0))
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    cache = Cache(directory)
    cache.store(PARTS, artifact(), ORIGIN)
    assert {path.name for path in directory.iterdir()} == {young.name, held.name, KEY.hex()}
    os.close(descriptor)
    cache.prune()
    assert [path.name for path in directory.iterdir()] == [KEY.hex()]


# Locks


def test_one_at_a_time_holds_the_lock_of_a_key(directory: Path) -> None:
    first, second = Cache(directory), Cache(directory)
    with first.lock(KEY, 0.0) as is_held:
        assert is_held
        with second.lock(KEY, 0.0) as is_held_too:
            assert not is_held_too
        with second.lock(entry_parts(graphs="33").key(), 0.0) as is_other_held:
            assert is_other_held
    with second.lock(KEY, 0.0) as is_held:
        assert is_held


def test_nobody_waits_for_work_in_the_background_but_such_work(directory: Path) -> None:
    first, second = Cache(directory), Cache(directory)
    with first.lock(KEY, 0.0, is_background=True) as is_held:
        assert is_held
        with second.lock(KEY, 0.0, is_background=True) as is_held_too:
            assert not is_held_too
        with second.lock(KEY, 0.0) as is_held_too:
            assert is_held_too
            with Cache(directory).lock(KEY, 0.0, is_background=True) as is_held_by_others:
                assert not is_held_by_others
    with first.lock(KEY, 0.0), second.lock(KEY, 0.0, is_background=True) as is_held:
        assert not is_held
    with second.lock(KEY, 0.0, is_background=True) as is_held:
        assert is_held


def test_a_dead_holder_does_not_block(directory: Path) -> None:
    program = """
import sys
from pathlib import Path
from neurald.hal.cache.store import Cache
with Cache(Path(sys.argv[1])).lock(bytes.fromhex(sys.argv[2]), 0.0) as is_held:
    print(is_held, flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(directory), KEY.hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    with holder.stdout, holder.stdin:
        assert holder.stdout.readline() == "True\n"
        with Cache(directory).lock(KEY, 0.1) as is_held:
            assert not is_held
        holder.kill()
        holder.wait()
        with Cache(directory).lock(KEY, 30.0) as is_held:
            assert is_held


def test_a_cache_that_cannot_be_locked(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    (directory / "locks").touch()
    with Cache(directory).lock(KEY, 1.0) as is_held:
        assert not is_held


def test_an_artifact_that_changes_while_it_is_written(directory: Path) -> None:
    """The stored bytes are one state of it, or the change is detected by the digest."""
    buffer = bytearray(b"x" * 100)
    changing = artifact()
    changing = type(changing)(model=(HostMemory(buffer), changing.model[1]), data=changing.data)
    Cache(directory).store(PARTS, changing, ORIGIN)
    buffer[:] = b"y" * 100
    found = contents(Cache(directory).load(KEY, NEEDED))
    assert found is not None
    assert found[0] == b"x" * 100
