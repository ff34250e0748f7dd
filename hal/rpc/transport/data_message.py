"""The messages of ExecuteWithData on the wire, whose data is copied once.

protobuf copies bytes into a message, from there to the wire, from the wire into a message, and out
of it. Here only the other fields go through protobuf; the chunks are written to the wire from where
they are, and read where they have arrived.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from neurald._proto import device_pb2
from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.rpc.transport.data_chunks import PackedChunk
from neurald.hal.rpc.transport.varint import encoded_varint

_M = TypeVar("_M", bound=Message)

_VARINT: Final = 0
_DELIMITED: Final = 2
#: The size of values of the other wire types.
_FIXED: Final = {1: 8, 5: 4}
_MAX_VARINT_BYTES: Final = 10
_CHUNK_FIELDS: Final = device_pb2.DataChunk.DESCRIPTOR.fields_by_name
_CONTENT: Final = _CHUNK_FIELDS["content"].number << 3 | _DELIMITED
_UNPACKED_BYTES: Final = _CHUNK_FIELDS["unpacked_bytes"].number << 3 | _VARINT
#: Both messages have their chunks in the same field.
_CHUNKS: Final = (
    device_pb2.ExecuteWithDataRequest.DESCRIPTOR.fields_by_name["chunks"].number << 3 | _DELIMITED
)
#: How many chunks a message may have. A sender needs one for each memory and each MiB.
_MAX_CHUNKS: Final = 1 << 14
#: Larger other fields count as content, so that no message becomes larger than peers accept.
_MAX_UNCOUNTED_BYTES: Final = 1 << 17


class DataMessage(NamedTuple, Generic[_M]):
    """A message that was received.

    Attributes:
        head: the message without its chunks.
        chunks: refer to the bytes that were received.
    """

    head: _M
    chunks: list[PackedChunk]


def encode(head: Message, chunks: Iterable[PackedChunk]) -> bytes:
    """Returns a message with chunks as bytes.

    Args:
        head: the message, without chunks.
        chunks: their content is copied now.
    """
    parts: list[bytes | memoryview] = [head.SerializeToString()]
    for content, unpacked_bytes in chunks:
        start = encoded_varint(_CONTENT) + encoded_varint(len(content))
        end = encoded_varint(_UNPACKED_BYTES) + encoded_varint(unpacked_bytes) if unpacked_bytes else b""
        parts += (
            encoded_varint(_CHUNKS),
            encoded_varint(len(start) + len(content) + len(end)),
            start,
            content,
            end,
        )
    return b"".join(parts)


def encode_in_parts(head: _M, chunks: Iterable[PackedChunk], part_bytes: int) -> Iterator[bytes]:
    """Yields a message with chunks, and more messages of its type with those that do not fit.

    Args:
        head: the message, without chunks.
        chunks: chunks of at most this many bytes each; they are taken when they are needed.
        part_bytes: how many bytes of content a message has at most.
    """
    head_bytes = head.ByteSize()
    part: list[PackedChunk] = []
    size = head_bytes if head_bytes > _MAX_UNCOUNTED_BYTES else 0
    is_sent = False
    for chunk in chunks:
        chunk_bytes = chunk.unpacked_bytes or len(chunk.content)
        if size and size + chunk_bytes > part_bytes:
            yield encode(head, part)
            head, part, size = type(head)(), [], 0
        part.append(chunk)
        size += chunk_bytes
        is_sent = size >= part_bytes
        if is_sent:  # without waiting until the next chunk is packed
            yield encode(head, part)
            head, part, size = type(head)(), [], 0
    if not is_sent:
        yield encode(head, part)


def split(kind: type[Message], data: bytes, *, is_strict: bool = False) -> tuple[bytes, list[PackedChunk]]:
    """Splits a message into the fields that protobuf decodes, and its chunks.

    Args:
        kind: type of the message, for errors.
        data: the message, which is not trusted.
        is_strict: whether fields of chunks that are not known here are refused, not skipped.

    Raises:
        BadData: it is not a message.
        ResourceExhaustedPersistent: it has too many chunks.
    """
    view = memoryview(data)
    heads: list[memoryview] = []
    chunks: list[PackedChunk] = []
    try:
        offset = 0
        while offset < len(data):
            begin = offset
            tag, offset = _read_varint(data, offset)
            if tag == _CHUNKS:
                size, offset = _read_varint(data, offset)
                chunks.append(_chunk(view, data, offset, offset + size, is_strict=is_strict))
                offset += size
                if len(chunks) > _MAX_CHUNKS:
                    raise ResourceExhaustedPersistent(
                        f"a message of ExecuteWithData has more than {_MAX_CHUNKS} chunks"
                    )
                continue
            offset = _skip(data, tag, offset)
            if offset > len(data):
                raise IndexError
            heads.append(view[begin:offset])
    except IndexError:
        raise BadData(
            f"{kind.DESCRIPTOR.name}: the {len(data)} bytes received are not a valid message"
        ) from None
    return b"".join(heads), chunks


def decode(kind: type[_M], data: bytes) -> DataMessage[_M]:
    """Decodes a message of a daemon, which may have fields that are not known here.

    Raises:
        BadData: it is not a message.
        ResourceExhaustedPersistent: it has too many chunks.
    """
    head, chunks = split(kind, data)
    try:
        return DataMessage(kind.FromString(head), chunks)
    except DecodeError:
        raise BadData(
            f"{kind.DESCRIPTOR.name}: the {len(data)} bytes received are not a valid message"
        ) from None


def _chunk(view: memoryview, data: bytes, offset: int, end: int, *, is_strict: bool) -> PackedChunk:
    """Reads a `DataChunk`.

    Raises:
        IndexError: it is malformed, or has a field that is refused; see `split`.
    """
    if end > len(data):
        raise IndexError
    content, unpacked_bytes = view[:0], 0
    while offset < end:
        tag, offset = _read_varint(data, offset)
        if tag == _CONTENT:
            size, offset = _read_varint(data, offset)
            content = view[offset : offset + size]
            offset += size
        elif tag == _UNPACKED_BYTES:
            unpacked_bytes, offset = _read_varint(data, offset)
        elif is_strict:
            raise IndexError
        else:
            offset = _skip(data, tag, offset)
    if offset != end:
        raise IndexError
    return PackedChunk(content, unpacked_bytes)


def _skip(data: bytes, tag: int, offset: int) -> int:
    """Returns the offset after the value of a field, perhaps beyond the end.

    Raises:
        IndexError: the tag is not valid.
    """
    kind = tag & 7
    if not tag >> 3:
        raise IndexError
    if kind == _VARINT:
        return _read_varint(data, offset)[1]
    if kind == _DELIMITED:
        size, offset = _read_varint(data, offset)
        return offset + size
    if kind in _FIXED:
        return offset + _FIXED[kind]
    raise IndexError


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Returns a number and the offset after it.

    Raises:
        IndexError: the data ends before, or the number is too long.
    """
    value = 0
    for position in range(_MAX_VARINT_BYTES):
        byte = data[offset + position]
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return value, offset + position + 1
    raise IndexError
