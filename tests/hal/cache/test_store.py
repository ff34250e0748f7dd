"""Restates VTS CompilationCaching and CompilationCachingSecurity: a defective entry is a miss."""

import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.devices.cached import NEEDED, ORIGIN, artifact, contents, entry_parts, stored

from neurald.hal.cache.entry import FORMAT, HEAD, write_entry
from neurald.hal.cache.file import open_directory
from neurald.hal.cache.secret import SECRET_VARIABLE, derived_secret, installation_secret
from neurald.hal.cache.store import MAX_BYTES_VARIABLE, Cache, Loaded, Miss, default_directory
from neurald.hal.device import CacheFilesNeeded
from neurald.hal.errors import BadData, BadState, OpFailed
from neurald.hal.memory.pool import HostMemory
from neurald.hal.records import replace

PARTS = entry_parts()
KEY = PARTS.key()
CONTENTS = (b"model content", b"more content", b"data content", b"seal")
FILES = (HEAD, "data0")
#: What the second file has: enough for a file of its own.
LARGE = bytes(range(256)) * 1024


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


WITH_FILE = (*CONTENTS[:2], LARGE, CONTENTS[3])


def stored_with_file(directory: Path, graphs: str = "11", content: bytes = b"content") -> Path:
    """Stores an entry whose data have a file of their own; returns its directory."""
    parts = entry_parts(graphs=graphs)
    data = (HostMemory(LARGE[len(content) :] + content if graphs != "11" else LARGE),)
    Cache(directory).store(parts, replace(artifact(content), data=data), ORIGIN)
    return directory / parts.key().hex()


def load(directory: Path, key: bytes = KEY, needed: CacheFilesNeeded = NEEDED) -> Loaded | Miss:
    return Cache(directory).load(key, needed)


def test_what_was_stored_is_loaded(directory: Path) -> None:
    entry = stored(directory, PARTS)
    found = load(directory)
    assert contents(found) == CONTENTS
    assert isinstance(found, Loaded)
    assert found.manifest.origin == ORIGIN
    assert found.manifest.parts == PARTS
    for memory in (*found.artifact.model, *found.artifact.data):
        assert memory.readonly
    assert [path.name for path in entry.iterdir()] == [HEAD]
    assert {path.stat().st_mode & 0o777 for path in entry.iterdir()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (directory, entry)} == {0o700}


def test_an_empty_place(directory: Path) -> None:
    assert load(directory) == Miss(reason="")
    assert not directory.exists()


def test_stored_again(directory: Path) -> None:
    stored(directory, PARTS, b"old")
    stored(directory, PARTS)
    assert contents(load(directory)) == CONTENTS
    assert [path.name for path in directory.iterdir()] == [KEY.hex()]


def test_large_contents(directory: Path) -> None:
    content = random.Random(1).randbytes((3 << 20) + 7)
    stored(directory, PARTS, content)
    assert contents(load(directory)) == (b"model " + content, b"more " + content, b"data " + content, b"seal")


def test_memories_without_bytes(directory: Path) -> None:
    nothing = replace(artifact(seal=b""), data=(HostMemory(b""),))
    Cache(directory).store(PARTS, nothing, ORIGIN)
    assert contents(load(directory)) == (b"model content", b"more content", b"", b"")


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_every_flipped_byte_is_noticed(directory: Path, seed: int) -> None:
    entry = stored_with_file(directory)
    cache = Cache(directory)
    flips = random.Random(seed)
    for name in FILES:
        path = entry / name
        whole = path.read_bytes()
        for position in range(seed, len(whole), 1 if name == HEAD else 5003):
            content = bytearray(whole)
            content[position] ^= 1 << flips.randrange(8)
            path.write_bytes(content)
            assert isinstance(cache.load(KEY, NEEDED), Miss), (name, position)
        path.write_bytes(whole)
    assert contents(cache.load(KEY, NEEDED)) == WITH_FILE


@pytest.mark.parametrize("name", FILES)
def test_every_other_length_is_noticed(directory: Path, name: str) -> None:
    path = stored_with_file(directory) / name
    whole = path.read_bytes()
    for length in range(0, len(whole), 1 if name == HEAD else 5003):
        path.write_bytes(whole[:length])
        assert isinstance(load(directory), Miss), length
    for more in (b"\0", b"\n", whole, bytes(1 << 20)):
        path.write_bytes(whole + more)
        assert isinstance(load(directory), Miss)


def lose(path: Path) -> None:
    path.unlink()


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    target = path.parent.parent / "elsewhere"
    path.rename(target)
    path.symlink_to(target)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def sparse(path: Path) -> None:
    os.truncate(path, 1 << 40)


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [lose, pipe, link, folder, sparse, empty])
def test_damaged_files(directory: Path, name: str, damage: Callable[[Path], None]) -> None:
    damage(stored_with_file(directory) / name)
    found = load(directory)
    assert isinstance(found, Miss)
    assert found.reason
    # And whatever it is, an entry takes its place.
    stored(directory, PARTS)
    assert contents(load(directory)) == CONTENTS


def test_a_head_that_a_crash_has_left_empty_is_damaged(directory: Path) -> None:
    empty(stored(directory, PARTS) / HEAD)
    found = load(directory)
    assert isinstance(found, Miss)
    assert "manifest is damaged" in found.reason
    (status,) = Cache(directory).entries()
    assert "manifest is damaged" in status.damage


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b"x"), lambda path: path.symlink_to("/tmp"), os.mkfifo]
)
def test_something_else_in_the_place_of_an_entry(directory: Path, damage: Callable[[Path], None]) -> None:
    directory.mkdir(mode=0o700)
    damage(directory / KEY.hex())
    assert isinstance(load(directory), Miss)
    stored(directory, PARTS)
    assert contents(load(directory)) == CONTENTS


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", *FILES])
def test_what_belongs_to_another_user(directory: Path, name: str) -> None:
    os.chown(stored_with_file(directory) / name, 12345, 12345)
    assert isinstance(load(directory), Miss)


def test_swapped_entries(directory: Path) -> None:
    """An entry that is valid, but belongs to another key."""
    first = stored(directory, PARTS)
    other = stored(directory, entry_parts(graphs="33"), b"other")
    shutil.rmtree(first)
    other.rename(first)
    assert load(directory) == Miss(reason="the entry cannot be used: it is the entry of another key")


@pytest.mark.parametrize("name", FILES)
def test_swapped_files(directory: Path, name: str) -> None:
    first = stored_with_file(directory)
    other = stored_with_file(directory, "33", b"changed")
    shutil.copyfile(other / name, first / name)
    assert isinstance(load(directory), Miss)


def test_files_of_one_entry_exchanged(directory: Path) -> None:
    data = tuple(HostMemory(bytes([number]) * (1 << 18)) for number in (1, 2))
    Cache(directory).store(PARTS, replace(artifact(), data=data), ORIGIN)
    entry, needed = directory / KEY.hex(), CacheFilesNeeded(model=2, data=2)
    assert isinstance(load(directory, needed=needed), Loaded)
    (entry / "data0").rename(entry / "spare")
    (entry / "data1").rename(entry / "data0")
    (entry / "spare").rename(entry / "data1")
    assert isinstance(load(directory, needed=needed), Miss)


def test_of_another_installation(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(directory, PARTS)
    monkeypatch.setenv(SECRET_VARIABLE, str(tmp_path / "other secret"))
    found = load(directory)
    assert isinstance(found, Miss)
    assert "of another installation" in found.reason


def test_opened_at_its_location_elsewhere(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with another environment and folder opens the same cache."""
    stored(directory, PARTS)
    monkeypatch.chdir(directory.parent)
    location = Cache(Path(directory.name), 1 << 20).location
    monkeypatch.chdir("/")
    monkeypatch.setenv(SECRET_VARIABLE, str(tmp_path / "another"))
    monkeypatch.setenv(MAX_BYTES_VARIABLE, "10")
    cache = Cache.at(location)
    assert (cache.path, cache.limit_bytes) == (directory, 1 << 20)
    assert isinstance(cache.load(KEY, NEEDED), Loaded)
    assert isinstance(load(directory), Miss)


def test_of_another_format(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("neurald.hal.cache.entry.FORMAT", FORMAT + 1)
        stored(directory, PARTS)
    assert load(directory) == Miss(
        reason=f"the entry cannot be used: its format is {FORMAT + 1}; {FORMAT} is expected"
    )


@pytest.mark.parametrize(("model", "data"), [(1, 1), (2, 0), (2, 2), (3, 1), (0, 0)])
def test_other_counts(directory: Path, model: int, data: int) -> None:
    stored(directory, PARTS)
    found = load(directory, needed=CacheFilesNeeded(model=model, data=data))
    assert isinstance(found, Miss)
    assert "it has 2 model and 1 data files" in found.reason


def test_a_manifest_that_could_not_be_read_again_is_not_stored(directory: Path) -> None:
    with pytest.raises(BadData, match="the manifest has"):
        Cache(directory).store(entry_parts(device_version="1" * 70_000), artifact(), ORIGIN)
    assert list(directory.iterdir()) == []


def test_a_seal_that_is_too_large_is_not_stored(directory: Path) -> None:
    with pytest.raises(BadData, match="the seal has"):
        Cache(directory).store(PARTS, artifact(seal=bytes((1 << 24) + 1)), ORIGIN)
    assert list(directory.iterdir()) == []


@pytest.mark.slow
def test_rewritten_while_it_is_loaded(directory: Path) -> None:
    """100 rounds in which another thread replaces the files by those of another entry."""
    entry = stored(directory, PARTS)
    other = stored(directory, entry_parts(graphs="33"), b"CONTENT")
    files = (HEAD,)
    whole = {name: (entry / name).read_bytes() for name in files}
    foreign = {name: (other / name).read_bytes() for name in files}
    cache = Cache(directory)
    for round_number in range(100):
        is_over = threading.Event()
        order = random.Random(round_number).sample(files, len(files))

        def rewrite(order: list[str] = order, is_over: threading.Event = is_over) -> None:
            while not is_over.is_set():
                for source in (foreign, whole):
                    for name in order:
                        with (entry / name).open("r+b") as file:
                            file.write(source[name])

        writer = threading.Thread(target=rewrite)
        writer.start()
        found = [contents(cache.load(KEY, NEEDED)) for _ in range(10)]
        is_over.set()
        writer.join()
        assert set(found) <= {None, CONTENTS}
    for name, content in whole.items():
        (entry / name).write_bytes(content)
    assert contents(cache.load(KEY, NEEDED)) == CONTENTS


@pytest.mark.slow
def test_stored_while_it_is_loaded(directory: Path) -> None:
    """A reader finds one of the stored artifacts, complete, or nothing."""
    stored(directory, PARTS, b"0")
    is_over = threading.Event()

    def store() -> None:
        for number in range(100):
            stored(directory, PARTS, b"%d" % number)
        is_over.set()

    writer = threading.Thread(target=store)
    writer.start()
    found = []
    while not is_over.is_set():
        found.append(contents(load(directory)))
    writer.join()
    assert set(found) - {None} <= {
        tuple(part.replace(b"content", b"%d" % number) for part in CONTENTS) for number in range(100)
    }
    assert contents(load(directory)) == tuple(part.replace(b"content", b"99") for part in CONTENTS)
    assert [path.name for path in directory.iterdir()] == [KEY.hex()]


# The directory


def test_one_that_others_can_write_is_refused(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(BadState, match="can be written by other users"):
        Cache(directory)


def test_a_file_in_its_place_is_refused(directory: Path) -> None:
    directory.touch()
    with pytest.raises(BadState, match="is not a directory"):
        Cache(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_one_of_another_user_is_refused(directory: Path) -> None:
    directory.mkdir()
    os.chown(directory, 12345, 12345)
    with pytest.raises(BadState, match="can be written by other users"):
        Cache(directory)


def test_a_place_where_none_can_be_made() -> None:
    with pytest.raises(BadState, match="Not a directory"):
        Cache(Path("/dev/null/cache"))
    with pytest.raises(OpFailed, match="/proc/cache"):
        Cache(Path("/proc/cache")).store(PARTS, artifact(), ORIGIN)


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.hal.cache.store.cache_directory", lambda: Path("~") / "neurald")
    with pytest.raises(BadState, match="set HOME"):
        default_directory()


def test_the_default_is_below_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "neurald"


@pytest.mark.parametrize("text", ["-1", "1e9", "much", "１", "9" * 400, "9" * 5000])
def test_a_limit_that_is_none(monkeypatch: pytest.MonkeyPatch, directory: Path, text: str) -> None:
    monkeypatch.setenv(MAX_BYTES_VARIABLE, text)
    with pytest.raises(BadState, match="a number of bytes is expected"):
        Cache(directory)


def test_an_entry_of_other_hands_is_none(directory: Path) -> None:
    """A manifest with wrong content, although the installation has made it."""
    entry = stored(directory, PARTS)
    shutil.rmtree(entry)
    entry.mkdir()
    descriptor = open_directory(entry)
    write_entry(descriptor, installation_secret(), entry_parts(graphs="33"), artifact(), ORIGIN)
    os.close(descriptor)
    assert load(directory) == Miss(reason="the entry cannot be used: it is the entry of another key")


def test_an_entry_of_a_driver_is_sound_and_used_by_that_driver_only(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = derived_secret(installation_secret(), "gpu")
    with monkeypatch.context() as driver:
        driver.setattr("neurald.hal.cache.secret._derived", secret)
        driver.setattr("neurald.hal.cache.secret._owner", "gpu")
        stored(directory, PARTS)
        # Processes that compile for it open the cache so.
        Cache.at(Cache(directory).location).store(entry_parts(graphs="22"), artifact(), ORIGIN)
        assert contents(load(directory)) == CONTENTS
        driver.setattr("neurald.hal.cache.secret._owner", "camera")
        stored(directory, entry_parts(graphs="33"))
        driver.setattr("neurald.hal.cache.secret._owner", "")
        stored(directory, entry_parts(graphs="44"))
    assert isinstance(load(directory), Miss)
    for found in (Cache(directory).verify(), Cache(directory).entries()):
        sound = [each.manifest.owner for each in found if each.manifest is not None and not each.damage]
        assert sound == ["gpu", "gpu"]
        assert len(found) == 4, "a driver forges no entry of others"
