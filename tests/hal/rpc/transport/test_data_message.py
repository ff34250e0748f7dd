"""Messages with data on the wire: the same as protobuf's, and safe from hostile bytes."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neurald._proto import device_pb2, types_pb2
from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.rpc.transport.data_chunks import PackedChunk
from neurald.hal.rpc.transport.data_message import decode, encode, encode_in_parts, split

REQUEST = device_pb2.ExecuteWithDataRequest
REPLY = device_pb2.ExecuteWithDataReply

chunks = st.lists(
    st.tuples(st.binary(max_size=300), st.sampled_from([0, 1, 127, 128, 1 << 20, (1 << 32) - 1])), max_size=4
)


def whole(found: list[tuple[bytes, int]], rate: float = 0.0) -> device_pb2.ExecuteWithDataRequest:
    """Returns a message as protobuf holds it."""
    return REQUEST(
        request=device_pb2.ExecuteRequest(prepared_model=7),
        bytes_per_s=rate,
        chunks=[device_pb2.DataChunk(content=content, unpacked_bytes=size) for content, size in found],
    )


@given(chunks, st.sampled_from([0.0, 1e6]))
def test_protobuf_reads_what_is_written(found: list[tuple[bytes, int]], rate: float) -> None:
    packed = [PackedChunk(memoryview(content), size) for content, size in found]
    assert REQUEST.FromString(encode(whole([], rate), packed)) == whole(found, rate)


@given(chunks, st.sampled_from([0.0, 1e6]))
def test_what_protobuf_writes_is_read(found: list[tuple[bytes, int]], rate: float) -> None:
    message = decode(REQUEST, whole(found, rate).SerializeToString())
    assert message.head == whole([], rate)
    assert [(bytes(each.content), each.unpacked_bytes) for each in message.chunks] == found


@given(chunks, st.data())
def test_damaged_messages_are_refused_or_read(found: list[tuple[bytes, int]], data: st.DataObject) -> None:
    content = bytearray(whole(found, 1.0).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        message = decode(REQUEST, cut)
    except BadData:
        return
    assert sum(len(each.content) for each in message.chunks) <= len(cut)


@pytest.mark.parametrize(
    "content",
    [
        b"\x12",  # no size
        b"\x12\x05\x0a",  # a size beyond the end
        b"\x12\x03\x0a\x05x",  # content beyond its chunk
        b"\x12\x02\x0a\x09" + bytes(20),  # content beyond its chunk, but not beyond the end
        b"\x80" * 11,  # a number that is too long
        b"\x00\x00",  # field 0
        b"\x1b",  # a group
        b"\x19\x00",  # a fixed64 that is cut off
    ],
)
def test_malformed_messages(content: bytes) -> None:
    with pytest.raises(BadData, match=r"ExecuteWithDataRequest: the \d+ bytes received are not a valid"):
        split(REQUEST, content)


def test_fields_of_newer_versions_are_skipped() -> None:
    chunk = b"\x0a\x01x\x7a\x01y\x78\x01"
    content = REPLY().SerializeToString() + b"\x12" + bytes([len(chunk)]) + chunk + b"\xfa\x01\x01z"
    message = decode(REPLY, content)
    assert [(bytes(each.content), each.unpacked_bytes) for each in message.chunks] == [(b"x", 0)]
    with pytest.raises(BadData):
        split(REPLY, content, is_strict=True)


def test_the_number_of_chunks_is_limited() -> None:
    with pytest.raises(ResourceExhaustedPersistent, match="more than 16384 chunks"):
        split(REQUEST, b"\x12\x00" * 16385)
    assert len(split(REQUEST, b"\x12\x00" * 16384)[1]) == 16384


@given(st.lists(st.integers(1, 100), max_size=12), st.booleans())
def test_parts_have_all_chunks_in_order(sizes: list[int], has_large_head: bool) -> None:
    head = whole([])
    if has_large_head:
        head.request.request.pools.extend(types_pb2.RequestPool(content_bytes=1 << 40) for _ in range(20_000))
    packed = [PackedChunk(bytes([number]) * size, 0) for number, size in enumerate(sizes)]
    parts = [REQUEST.FromString(each) for each in encode_in_parts(head, packed, 100)]
    assert [each.HasField("request") for each in parts] == [True] + [False] * (len(parts) - 1)
    assert [chunk.content for part in parts for chunk in part.chunks] == [each.content for each in packed]
    assert all(sum(len(each.content) for each in part.chunks) <= 100 for part in parts)
    assert all(part.chunks for part in parts[1:])
    assert not (has_large_head and parts[0].chunks)


def test_a_full_part_does_not_wait_for_the_next_chunk() -> None:
    taken: list[int] = []

    def slowly() -> Iterator[PackedChunk]:
        for number in range(3):
            taken.append(number)
            yield PackedChunk(bytes(100), 0)

    parts = encode_in_parts(whole([]), slowly(), 100)
    next(parts)
    assert taken == [0]
    assert len(list(parts)) == 2
