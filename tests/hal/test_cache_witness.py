"""Large files of data are used where they lie, as long as they are known to be what they were."""

import mmap
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.cached import NEEDED, ORIGIN, artifact, entry_parts

from neurald.hal import cache_file, file_memory
from neurald.hal.cache import Cache, Loaded, Miss
from neurald.hal.cache_entry import MANIFEST
from neurald.hal.cache_witness import WITNESS
from neurald.hal.memory import HostMemory, Memory, SharedMemory

PARTS = entry_parts()
CONTENT = bytes(range(256)) * 1200


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _soon_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_memory, "_REST_NS", 20_000_000)


def stored(directory: Path, content: bytes = CONTENT, graphs: str = "11") -> Path:
    parts = entry_parts(graphs=graphs)
    Cache(directory).store(parts, replace(artifact(), data=(HostMemory(content),)), ORIGIN)
    return directory / parts.key().hex()


def data(directory: Path) -> Memory | None:
    found = Cache(directory).load(PARTS.key(), NEEDED)
    return found.artifact.data[0] if isinstance(found, Loaded) else None


def is_mapped(memory: Memory | None) -> bool:
    assert memory is not None
    assert bytes(memory.view()) == CONTENT
    assert memory.readonly
    return not isinstance(memory, SharedMemory)


def test_what_was_just_stored_is_not_read_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(directory)
    hashed: list[int] = []
    of = cache_file.Fingerprint.of

    def counted(_: object, content: memoryview) -> cache_file.Fingerprint:
        hashed.append(content.nbytes)
        return of(content)

    monkeypatch.setattr(cache_file.Fingerprint, "of", classmethod(counted))
    memory = data(directory)
    assert is_mapped(memory)
    assert memory is not None
    assert memory.address % mmap.PAGESIZE == 0
    assert max(hashed) < len(CONTENT)


def test_small_files_and_what_is_executed_are_always_read(directory: Path) -> None:
    entry = stored(directory, b"small")
    assert not (entry / WITNESS).exists()
    found = Cache(directory).load(PARTS.key(), NEEDED)
    assert isinstance(found, Loaded)
    assert all(isinstance(memory, SharedMemory) for memory in (*found.artifact.model, *found.artifact.data))


def test_a_flipped_byte_is_noticed(directory: Path) -> None:
    path = stored(directory) / "data0"
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert isinstance(Cache(directory).load(PARTS.key(), NEEDED), Miss)


def test_a_file_that_was_touched_is_read_once(directory: Path) -> None:
    path = stored(directory) / "data0"
    path.touch()
    assert not is_mapped(data(directory))  # not at rest
    time.sleep(0.05)
    assert not is_mapped(data(directory))  # read, and noted
    assert is_mapped(data(directory))


def test_a_copy_of_an_entry_is_read_once(directory: Path) -> None:
    entry = stored(directory)
    copy = directory / "copy"
    shutil.copytree(entry, copy)
    shutil.rmtree(entry)
    copy.rename(entry)
    time.sleep(0.05)
    assert not is_mapped(data(directory))
    assert is_mapped(data(directory))


def test_after_a_boot_files_are_read_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(directory)
    time.sleep(0.05)
    monkeypatch.setattr(file_memory, "_boot", lambda: "another")
    assert not is_mapped(data(directory))
    assert is_mapped(data(directory))
    monkeypatch.setattr(file_memory, "_boot", lambda: "")
    assert not is_mapped(data(directory))


@pytest.mark.parametrize("position", range(0, 300, 7))
def test_notes_of_others_are_not_believed(directory: Path, position: int) -> None:
    entry = stored(directory)
    path = entry / WITNESS
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1
    path.write_bytes(content)
    assert not is_mapped(data(directory))


def test_notes_of_another_entry_or_content_say_nothing(directory: Path) -> None:
    entry, other = stored(directory), stored(directory, bytes(len(CONTENT)), "33")
    shutil.copyfile(other / WITNESS, entry / WITNESS)
    assert not is_mapped(data(directory))
    # The file itself from there, as it is: what is noted of it is not what the manifest says.
    (other / "data0").rename(entry / "data0")
    assert isinstance(Cache(directory).load(PARTS.key(), NEEDED), Miss)


def test_verifying_reads_everything(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stored(directory) / "data0"
    (status,) = Cache(directory).verify()
    assert not status.damage
    monkeypatch.setattr("neurald.hal.cache_entry.read_witness", pytest.fail)
    with path.open("r+b") as file:
        file.write(b"!")
    (status,) = Cache(directory).verify()
    assert "data0 has changed" in status.damage


def test_a_removed_entry_stays_mapped(directory: Path) -> None:
    stored(directory)
    memory = data(directory)
    assert Cache(directory).prune(limit_bytes=0) == [PARTS.key().hex()]
    assert is_mapped(memory)


def test_a_cache_that_cannot_be_written_is_used(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = stored(directory)
    (entry / WITNESS).unlink()
    time.sleep(0.05)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("neurald.hal.cache_witness.replace_file", full)
    assert not is_mapped(data(directory))
    assert not is_mapped(data(directory))
    assert sorted(path.name for path in entry.iterdir()) == ["data0", MANIFEST, "model0", "model1", "seal"]
