import random
import struct
from pathlib import Path

import msgspec
import pytest

from neurald.hal.errors import BadData
from neurald.hal.memory.mapped_file import FileMemory
from neurald.hal.memory.pool import Memory, SharedMemory
from neurald.runtime.plan_files.container import is_plan_file, verified_container, write_container
from neurald.runtime.plan_files.keys import SigningKey
from neurald.runtime.tflite.file.content import file_content

PARTS = {"first": b"code" * 50, "empty": b"", "last": b"weights" * 100}
CONTENT = {"answer": 42}


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(path: Path) -> SigningKey:
    key = SigningKey()
    parts = {name: memoryview(content) for name, content in PARTS.items()}
    write_container(path, msgspec.json.encode(CONTENT), parts, key)
    return key


def read(path: Path, *trusted: bytes) -> tuple[object, dict[str, bytes]]:
    name, memory = file_content(path)
    assert isinstance(memory, FileMemory)
    container = verified_container(name, memory, frozenset(trusted))
    parts: dict[str, Memory] = container.read_all()
    return msgspec.json.decode(container.content), {name: bytes(part.view()) for name, part in parts.items()}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    key = written(path)
    assert read(path, key.public) == (CONTENT, PARTS)
    assert is_plan_file(path)
    assert [each.name for each in tmp_path.glob("*.plan")] == ["a.plan"]
    other = tmp_path / "x"
    other.write_bytes(b"TFL3")
    assert not is_plan_file(other)
    assert not is_plan_file(tmp_path)
    assert not is_plan_file(tmp_path / "none")


def test_many_parts_need_few_descriptors(tmp_path: Path) -> None:
    """A plan of 1,000 steps has thousands of parts; processes often have 1,024 descriptors."""
    path = tmp_path / "a.plan"
    key = SigningKey()
    parts = {f"part {number}": memoryview(b"%d" % number) for number in range(500)}
    write_container(path, msgspec.json.encode(CONTENT), parts, key)
    name, memory = file_content(path)
    assert isinstance(memory, FileMemory)
    container = verified_container(name, memory, frozenset([key.public]))
    before = len(list(Path("/proc/self/fd").iterdir()))
    copies = container.read_all({"part 7"})
    assert len(list(Path("/proc/self/fd").iterdir())) - before < 10
    assert {name: bytes(copy.view()) for name, copy in copies.items()} == parts
    assert isinstance(copies["part 7"], SharedMemory)
    assert all(copy.readonly for copy in copies.values())


def test_files_of_others_are_refused_until_their_key_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    key = written(path)
    with pytest.raises(BadData, match=f"signed with the key {key.public.hex()}, which is not trusted"):
        read(path)
    with pytest.raises(BadData, match="not trusted"):
        read(path, bytes(32))
    assert read(path, bytes(32), key.public)[0] == CONTENT


def test_a_forged_key_does_not_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.plan"
    key = written(path)
    content = bytearray(path.read_bytes())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    content[24:56] = SigningKey().public
    path.write_bytes(content)
    with pytest.raises(BadData, match="damaged or forged"):
        read(path, SigningKey().public, key.public)


def test_no_change_of_any_byte_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    key = written(path)
    original = path.read_bytes()
    generator = random.Random(1)
    places = [*range(140), *(generator.randrange(len(original)) for _ in range(800))]
    for place in places:
        content = bytearray(original)
        content[place] ^= 1 << generator.randrange(8)
        path.write_bytes(content)
        with pytest.raises(BadData, match=r"a\.plan"):
            read(path, key.public)


@pytest.mark.parametrize(
    ("place", "why"), [(8, "it has format 6; 1 is expected"), (12, "its head has 0x7 where 0 is expected")]
)
def test_a_head_that_is_wrong_is_named(tmp_path: Path, place: int, why: str) -> None:
    path = tmp_path / "a.plan"
    key = written(path)
    content = bytearray(path.read_bytes())
    content[place] ^= 7
    path.write_bytes(content)
    with pytest.raises(BadData, match=why):
        read(path, key.public)


def test_no_other_damage_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    key = written(path)
    original = path.read_bytes()
    generator = random.Random(2)
    for _ in range(500):
        content = bytearray(original)
        start = generator.randrange(len(content))
        end = min(len(content), start + generator.randrange(1, 200))
        kind = generator.randrange(5)
        if kind == 0:
            del content[start:]
        elif kind == 1:
            del content[start:end]
        elif kind == 2:
            content[start:start] = generator.randbytes(end - start)
        elif kind == 3:
            content[start:end] = generator.randbytes(end - start)
        else:
            content += bytes(end - start)
        if content == original or not content:
            continue
        path.write_bytes(content)
        with pytest.raises(BadData, match=r"a\.plan"):
            read(path, key.public)


def test_a_signed_table_that_lies_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    key = written(path)
    original = path.read_bytes()
    length = struct.unpack_from("<Q", original, 16)[0]
    table = msgspec.json.decode(original[120 : 120 + length])

    def forged(**changes: object) -> bytes:
        described = msgspec.json.encode({**table, **changes})
        head = struct.pack("<8sIIQ", b"NRLDPLAN", 1, 0, len(described)) + key.public
        signature = key.sign(b"neurald plan file 1\0" + head + described)
        start = -(-(120 + len(described)) // 64) * 64
        body = original[-(-(120 + length) // 64) * 64 :]
        return (head + signature + described).ljust(start, b"\0") + body

    path.write_bytes(forged())
    assert read(path, key.public)[0] == CONTENT
    first, empty, last = (table["parts"][name] for name in PARTS)
    lies: list[dict[str, object]] = [
        {"size_bytes": table["size_bytes"] + 64},
        {"parts": {}},
        {"parts": {"first": first}},
        {"parts": {"first": first, "last": first}},
        {"parts": {"first": {**first, "length": 1 << 40}}},
        {"parts": {"first": {**first, "offset": -64}, "empty": empty, "last": last}},
        {"parts": {"first": {**first, "length": -1}, "empty": empty, "last": last}},
        {"parts": {"first": {**first, "digest": "0" * 64}, "empty": empty, "last": last}},
        {"parts": {"first": first, "empty": empty, "last": {**last, "length": last["length"] - 8}}},
        {"more": 1},
        {"parts": [1]},
    ]
    for lie in lies:
        path.write_bytes(forged(**lie))
        with pytest.raises(BadData, match=r"a\.plan"):
            read(path, key.public)


def test_a_file_at_rest_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import time

    from neurald.runtime.plan_files import container

    path = tmp_path / "a.plan"
    key = written(path)
    # Times of change cannot be set, so the clock is moved.
    now = time.time_ns
    monkeypatch.setattr("neurald.hal.memory.mapped_file.time.time_ns", lambda: now() + 10**11)
    assert read(path, key.public) == (CONTENT, PARTS)
    verified: list[bytes] = []

    def counted(content: bytes, signature: bytes, public: bytes) -> bool:
        verified.append(public)
        return True

    monkeypatch.setattr(container, "is_signed", counted)
    assert read(path, key.public) == (CONTENT, PARTS)
    assert not verified
    with pytest.raises(BadData, match="not trusted"):
        read(path)
    os.utime(path)
    assert read(path, key.public) == (CONTENT, PARTS)
    assert verified == [key.public]
