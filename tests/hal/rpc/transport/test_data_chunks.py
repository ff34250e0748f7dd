"""Chunks: round trips, when they are compressed, and damaged ones."""

import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neurald._proto import device_pb2
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory
from neurald.hal.rpc.transport.data_chunks import Packer, Unpacker, part_bytes, unpacked
from neurald.hal.rpc.transport.status import CHUNK_BYTES

SLOW = 1e5


def empty(*sizes: int) -> list[HostMemory]:
    return [HostMemory(np.zeros(size, np.uint8)) for size in sizes]


@given(
    st.lists(st.integers(1, 3 * CHUNK_BYTES), min_size=0, max_size=4),
    st.sampled_from([0.0, SLOW, 1e12]),
    st.integers(1, 256),
)
@settings(max_examples=25)
def test_content_arrives_unchanged(sizes: list[int], rate: float, variety: int) -> None:
    rng = np.random.default_rng(variety)
    sources = [HostMemory(rng.integers(0, variety, size, np.uint8)) for size in sizes]
    targets = empty(*sizes)
    unpacker = Unpacker(targets)
    for chunk in Packer(rate).chunks(sources):
        assert len(chunk.content) <= CHUNK_BYTES
        unpacker.add(device_pb2.DataChunk.FromString(chunk.message.SerializeToString()))
    unpacker.require_complete()
    for source, target in zip(sources, targets, strict=True):
        assert target.view().tobytes() == source.view().tobytes()


def packed_share(content: "np.ndarray[tuple[int], np.dtype[np.uint8]]", rate: float) -> float:
    chunks = list(Packer(rate).chunks([HostMemory(content)]))
    return sum(len(chunk.content) for chunk in chunks) / len(content)


def test_only_what_arrives_earlier_is_compressed() -> None:
    rng = np.random.default_rng(0)
    zeros, noise = np.zeros(3 << 20, np.uint8), rng.integers(0, 256, 3 << 20, np.uint8)
    assert packed_share(zeros, SLOW) < 0.02
    assert packed_share(noise, SLOW) == 1
    # The link is fast, or its speed is not known.
    assert packed_share(zeros, 1e9) == packed_share(zeros, 0) == 1
    # Small content is not worth it.
    assert packed_share(zeros[:4095], SLOW) == 1


def test_noise_is_rarely_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    samples: list[int] = []
    compress = zlib.compress

    def counted(content: memoryview, level: int) -> bytes:
        samples.append(len(content))
        return compress(content, level)

    monkeypatch.setattr(zlib, "compress", counted)
    noise = HostMemory(np.random.default_rng(0).integers(0, 256, 16 << 20, np.uint8))
    for part in (CHUNK_BYTES, CHUNK_BYTES // 16):
        samples.clear()
        assert all(not each.unpacked_bytes for each in Packer(SLOW).chunks([noise], part))
        assert len(samples) == 2
        assert max(samples) <= 1 << 14


def test_content_that_compresses_well_is_sampled_once_for_each_megabyte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    samples: list[int] = []
    compress = zlib.compress

    def counted(content: memoryview, level: int) -> bytes:
        samples.append(len(content))
        return compress(content, level)

    monkeypatch.setattr(zlib, "compress", counted)
    zeros, part = HostMemory(np.zeros(2 << 20, np.uint8)), CHUNK_BYTES // 16
    assert all(each.unpacked_bytes for each in Packer(SLOW).chunks([zeros], part))
    assert sorted(samples) == [1 << 14] * 2 + [part] * 32


def test_chunks_that_are_not_valid() -> None:
    zeros = zlib.compress(bytes(100), 1)
    bad = [
        device_pb2.DataChunk(),
        device_pb2.DataChunk(content=bytes(101)),
        device_pb2.DataChunk(unpacked_bytes=100),
        device_pb2.DataChunk(content=zeros, unpacked_bytes=101),
        device_pb2.DataChunk(content=zeros, unpacked_bytes=99),
        device_pb2.DataChunk(content=zeros[:-1], unpacked_bytes=100),
        device_pb2.DataChunk(content=zeros + b"x", unpacked_bytes=100),
        device_pb2.DataChunk(content=b"x" * 20, unpacked_bytes=100),
        device_pb2.DataChunk(content=zeros[:-4] + bytes(4), unpacked_bytes=100),
        device_pb2.DataChunk(content=bytes(5000), unpacked_bytes=100),
    ]
    for chunk in bad:
        with pytest.raises(BadData):
            unpacked(chunk, 100)
    assert unpacked(device_pb2.DataChunk(content=zeros, unpacked_bytes=100), 100) == bytes(100)
    large = device_pb2.DataChunk(content=zlib.compress(bytes(2 << 20)), unpacked_bytes=2 << 20)
    with pytest.raises(BadData, match="at most"):
        unpacked(large, 2 << 20)


def test_a_small_chunk_does_not_take_much_memory() -> None:
    bomb = device_pb2.DataChunk(content=zlib.compress(bytes(1 << 20), 9)[:4000], unpacked_bytes=1000)
    tracemalloc.start()
    try:
        with pytest.raises(BadData):
            unpacked(bomb, 1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()


def test_too_much_and_too_little() -> None:
    unpacker = Unpacker(empty(10, 5))
    unpacker.add(device_pb2.DataChunk(content=bytes(10)))
    with pytest.raises(BadData, match="1 to 5 are expected"):
        unpacker.add(device_pb2.DataChunk(content=bytes(6)))
    unpacker.add(device_pb2.DataChunk(content=bytes(2)))
    with pytest.raises(BadData, match="3 bytes too early"):
        unpacker.require_complete()
    unpacker.add(device_pb2.DataChunk(content=bytes(3)))
    unpacker.require_complete()
    with pytest.raises(BadData, match="after all 15 bytes"):
        unpacker.add(device_pb2.DataChunk(content=bytes(1)))


@pytest.mark.parametrize(
    ("rate", "size"),
    [(0.0, CHUNK_BYTES), (1e3, 1 << 16), (125e6, 1 << 16), (1e9, 500_000), (1e12, CHUNK_BYTES)],
)
def test_parts_follow_the_speed_of_the_link(rate: float, size: int) -> None:
    assert part_bytes(rate) == size
