"""Large data files are not hashed again while their states are known; they are always copied."""

import mmap
import os
import shutil
import time
from pathlib import Path

import pytest
from support.devices.cached import NEEDED, ORIGIN, artifact, entry_parts

from neurald.hal.cache import file as cache_file
from neurald.hal.cache.entry import HEAD
from neurald.hal.cache.file_attestation import ATTESTATIONS
from neurald.hal.cache.store import Cache, Loaded, Miss
from neurald.hal.memory import mapped_file
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.records import replace

PARTS = entry_parts()
CONTENT = bytes(range(256)) * 1200


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _soon_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "_REST_NS", 20_000_000)


def stored(directory: Path, content: bytes = CONTENT, graphs: str = "11") -> Path:
    parts = entry_parts(graphs=graphs)
    Cache(directory).store(parts, replace(artifact(), data=(HostMemory(content),)), ORIGIN)
    return directory / parts.key().hex()


def noted(directory: Path, content: bytes = CONTENT, graphs: str = "11") -> Path:
    """Stores an entry whose file was touched and then read, so that its new state is noted."""
    entry = stored(directory, content, graphs)
    assert not (entry / ATTESTATIONS).exists()
    (entry / "data0").touch()
    time.sleep(0.05)
    assert isinstance(Cache(directory).load(bytes.fromhex(entry.name), NEEDED), Loaded)
    assert (entry / ATTESTATIONS).exists()
    _hashed.clear()
    return entry


def data(directory: Path) -> Memory | None:
    found = Cache(directory).load(PARTS.key(), NEEDED, is_shared=_kind["is_shared"])
    return found.artifact.data[0] if isinstance(found, Loaded) else None


@pytest.fixture(autouse=True, params=[False, True], ids=["private", "shared"])
def _memories(request: pytest.FixtureRequest) -> None:
    """Copies large data to memory of this process, or to memory that another one can map."""
    _kind["is_shared"] = request.param


_kind = {"is_shared": False}


@pytest.fixture(autouse=True)
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns the sizes of contents that were hashed."""
    _hashed.clear()
    of = cache_file.Fingerprint.of

    def counted(_: object, content: memoryview) -> cache_file.Fingerprint:
        _hashed.append(content.nbytes)
        return of(content)

    monkeypatch.setattr(cache_file.Fingerprint, "of", classmethod(counted))
    return _hashed


_hashed: list[int] = []


def is_believed(memory: Memory | None) -> bool:
    """Returns whether the large file was not hashed since the last call."""
    assert memory is not None
    assert isinstance(memory, SharedMemory) is _kind["is_shared"]
    assert bytes(memory.view()) == CONTENT
    assert memory.readonly
    hashed = max(_hashed, default=0)
    _hashed.clear()
    return hashed < len(CONTENT)


def test_what_was_just_stored_is_not_hashed_again(directory: Path) -> None:
    stored(directory)
    memory = data(directory)
    assert is_believed(memory)
    assert memory is not None
    assert memory.address % mmap.PAGESIZE == 0


@pytest.mark.parametrize("is_known", [True, False])
def test_what_happens_to_the_file_afterwards_changes_nothing(directory: Path, is_known: bool) -> None:
    entry = stored(directory)
    if not is_known:
        (entry / "data0").touch()
    memory = data(directory)
    assert is_believed(memory) is is_known
    with (entry / "data0").open("r+b") as file:
        file.write(b"\x7f" * len(CONTENT))
    assert is_believed(memory)
    os.truncate(entry / "data0", 0)  # reading a mapping of it would be the end of the process
    assert is_believed(memory)
    assert isinstance(Cache(directory).load(PARTS.key(), NEEDED), Miss)


def test_a_file_that_changes_while_it_is_copied_is_not_believed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(directory) / "data0"
    sendfile, preadv = os.sendfile, os.preadv

    def write_to(source: int) -> None:
        if os.fstat(source).st_size == len(CONTENT):
            with path.open("r+b") as file:
                file.write(b"!")

    def send(target: int, source: int, offset: int, count: int) -> int:
        write_to(source)
        return sendfile(target, source, offset, count)

    def read(source: int, buffers: list[memoryview], offset: int) -> int:
        write_to(source)
        return preadv(source, buffers, offset)

    monkeypatch.setattr(os, "sendfile", send)
    monkeypatch.setattr(os, "preadv", read)
    assert isinstance(Cache(directory).load(PARTS.key(), NEEDED), Miss)


def test_small_files_and_what_is_executed_are_always_read(directory: Path) -> None:
    entry = stored(directory, b"small")
    assert not (entry / ATTESTATIONS).exists()
    found = Cache(directory).load(PARTS.key(), NEEDED)
    assert isinstance(found, Loaded)
    assert all(memory.readonly for memory in (*found.artifact.model, *found.artifact.data))


def test_a_flipped_byte_is_noticed(directory: Path) -> None:
    path = stored(directory) / "data0"
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert isinstance(Cache(directory).load(PARTS.key(), NEEDED), Miss)


def test_a_file_that_was_touched_is_read_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(directory) / "data0"
    path.touch()
    with monkeypatch.context() as later:
        later.setattr(mapped_file, "_REST_NS", 10**12)
        assert not is_believed(data(directory))  # not at rest
    time.sleep(0.05)
    assert not is_believed(data(directory))  # read, and noted
    assert is_believed(data(directory))


def test_a_copy_of_an_entry_is_read_once(directory: Path) -> None:
    entry = stored(directory)
    copy = directory / "copy"
    shutil.copytree(entry, copy)
    shutil.rmtree(entry)
    copy.rename(entry)
    time.sleep(0.05)
    assert not is_believed(data(directory))
    assert is_believed(data(directory))


def test_after_a_boot_files_are_read_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(directory)
    time.sleep(0.05)
    monkeypatch.setattr(mapped_file, "_boot", lambda: "another")
    assert not is_believed(data(directory))
    assert is_believed(data(directory))
    monkeypatch.setattr(mapped_file, "_boot", lambda: "")
    assert not is_believed(data(directory))


@pytest.mark.parametrize("position", range(0, 300, 7))
def test_notes_of_others_are_not_believed(directory: Path, position: int) -> None:
    path = noted(directory) / ATTESTATIONS
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1
    path.write_bytes(content)
    assert not is_believed(data(directory))


def test_notes_of_another_entry_or_content_say_nothing(directory: Path) -> None:
    entry, other = noted(directory), noted(directory, bytes(len(CONTENT)), "33")
    shutil.copyfile(other / ATTESTATIONS, entry / ATTESTATIONS)
    assert not is_believed(data(directory))
    # The file itself from there, as it is: what is noted of it is not what the manifest says.
    (other / "data0").rename(entry / "data0")
    assert isinstance(Cache(directory).load(PARTS.key(), NEEDED), Miss)


def test_verifying_reads_everything(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(directory) / "data0"
    (status,) = Cache(directory).verify()
    assert not status.damage
    monkeypatch.setattr("neurald.hal.cache.entry.read_attestations", pytest.fail)
    with path.open("r+b") as file:
        file.write(b"!")
    (status,) = Cache(directory).verify()
    assert "data0 has changed" in status.damage


def test_a_removed_entry_stays_in_use(directory: Path) -> None:
    stored(directory)
    memory = data(directory)
    assert Cache(directory).prune(limit_bytes=0) == [PARTS.key().hex()]
    assert is_believed(memory)


def test_a_cache_that_cannot_be_written_is_used(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = stored(directory)
    (entry / "data0").touch()
    time.sleep(0.05)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("neurald.hal.cache.file_attestation.replace_file", full)
    assert not is_believed(data(directory))
    assert not is_believed(data(directory))
    assert sorted(path.name for path in entry.iterdir()) == ["data0", HEAD]
