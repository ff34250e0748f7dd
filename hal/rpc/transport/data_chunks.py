"""Content of memories in messages: in chunks, which are compressed where that is faster.

The sender needs one chunk of memory at a time, and so does the receiver. Whether compression is
faster depends on the link and on the content: a sample of a chunk is compressed, and the times to
send the chunk as it is and to compress, send and decompress it are compared. Links that move bytes
faster than zlib compresses them are not sampled.
"""

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from neurald._proto import device_pb2
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import Memory
from neurald.hal.rpc.transport.status import CHUNK_BYTES

#: Compression at the lowest level is not faster than that, in bytes per second.
_MAX_RATE: Final = 100e6
_LEVEL: Final = 1
#: Smaller content is sent as it is: the round trip takes longer than its bytes.
_MIN_BYTES: Final = 1 << 12
_SAMPLE_BYTES: Final = 1 << 14
#: Compression must save at least this share of the time.
_MIN_GAIN: Final = 0.1
#: zlib decompresses that many times faster than it compresses.
_DECOMPRESSION_FACTOR: Final = 3.0
#: How much content a sample speaks for: one that compresses well, and one that does not.
_GOOD_SAMPLE_BYTES: Final = CHUNK_BYTES
_BAD_SAMPLE_BYTES: Final = 8 * CHUNK_BYTES
#: Compressed data is at most this much larger than its content; see `deflateBound`.
_MAX_GROWTH: Final = 1 << 12
#: A part of a message takes the link this long. Until the first part has been sent, and after the
#: last one has arrived, the link is idle; each part costs both sides about a tenth of that.
_PART_S: Final = 5e-4
_MIN_PART_BYTES: Final = 1 << 16


def part_bytes(bytes_per_s: float) -> int:
    """Returns how many bytes of content a message has at most, so that the link is rarely idle.

    Args:
        bytes_per_s: the speed of the link; 0 if it is not known.
    """
    return clamped_part_bytes(int(bytes_per_s * _PART_S) if bytes_per_s > 0 else CHUNK_BYTES)


def clamped_part_bytes(size: int) -> int:
    """Returns a size of parts that a peer asks for, or the nearest one that is allowed."""
    return min(max(size, _MIN_PART_BYTES), CHUNK_BYTES)


class Packer:
    """Makes chunks for one link and one kind of content.

    Args:
        bytes_per_s: the speed of the link; 0 if it is not known, and nothing is compressed.
    """

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s if 0 < bytes_per_s <= _MAX_RATE else 0.0
        self._is_compressible = False
        #: How much content the last sample still speaks for.
        self._unsampled_bytes = 0

    def chunks(self, memories: Iterable[Memory], max_bytes: int = CHUNK_BYTES) -> Iterator["PackedChunk"]:
        """Yields the content of memories, one after the other, this many bytes at once at most."""
        for memory in memories:
            for offset in range(0, memory.size, max_bytes):
                yield self.pack(memory.view(offset, min(max_bytes, memory.size - offset)))

    def pack(self, content: memoryview) -> "PackedChunk":
        """Returns a chunk of at most 1 MiB."""
        if self._is_worthwhile(content):
            packed = zlib.compress(content, _LEVEL)
            if len(packed) < len(content):
                return PackedChunk(packed, len(content))
        return PackedChunk(content, 0)

    def _is_worthwhile(self, content: memoryview) -> bool:
        """Returns whether compressing makes a chunk arrive earlier."""
        if not self._bytes_per_s or len(content) < _MIN_BYTES:
            return False
        if self._unsampled_bytes <= 0:
            self._is_compressible = self._is_compressed_earlier(content)
            self._unsampled_bytes = _GOOD_SAMPLE_BYTES if self._is_compressible else _BAD_SAMPLE_BYTES
        self._unsampled_bytes -= len(content)
        return self._is_compressible

    def _is_compressed_earlier(self, content: memoryview) -> bool:
        """Returns whether such a chunk arrives earlier if it is compressed, by a sample."""
        middle = max(0, (len(content) - _SAMPLE_BYTES) // 2)
        sample = content[middle : middle + _SAMPLE_BYTES]
        started = time.perf_counter()
        share = len(zlib.compress(sample, _LEVEL)) / len(sample)
        compress_s = (time.perf_counter() - started) / len(sample)
        plain_s = 1 / self._bytes_per_s
        packed_s = compress_s * (1 + 1 / _DECOMPRESSION_FACTOR) + share * plain_s
        return packed_s <= plain_s * (1 - _MIN_GAIN)


class PackedChunk(NamedTuple):
    """The fields of a message `DataChunk`, since a message has a copy of its bytes.

    Attributes:
        content: may be the memory that it is from.
        unpacked_bytes: size of the content before zlib; 0 if it is not compressed.
    """

    content: bytes | memoryview
    unpacked_bytes: int

    @property
    def message(self) -> device_pb2.DataChunk:
        """The chunk as a message."""
        return device_pb2.DataChunk(content=bytes(self.content), unpacked_bytes=self.unpacked_bytes)


class Unpacker:
    """Writes chunks to memories, one after the other.

    Args:
        memories: the memories to write to; the chunks must have exactly as many bytes.
    """

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = memories
        self._number = 0
        self._offset = 0

    @property
    def is_complete(self) -> bool:
        """True once all memories are full."""
        return self._number >= len(self._memories)

    def add(self, chunk: device_pb2.DataChunk | PackedChunk) -> int:
        """Writes a chunk; returns how many bytes it has written.

        Raises:
            BadData: the chunk is empty or damaged, or has more bytes than the memory has left.
        """
        if self.is_complete:
            raise BadData(
                f"a chunk arrived after all {sum(each.size for each in self._memories)} bytes that were announced"
            )
        memory = self._memories[self._number]
        content = unpacked(chunk, memory.size - self._offset)
        # NumPy releases the GIL while it copies and the kernel allocates the pages.
        np.asarray(memory.view(self._offset, len(content)))[...] = np.frombuffer(content, np.uint8)
        self._offset += len(content)
        if self._offset == memory.size:
            self._number, self._offset = self._number + 1, 0
        return len(content)

    def require_complete(self) -> None:
        """Raises BadData unless all memories are full."""
        if not self.is_complete:
            missing = sum(memory.size for memory in self._memories[self._number :]) - self._offset
            raise BadData(f"the content ended {missing} bytes too early")


def unpacked(chunk: device_pb2.DataChunk | PackedChunk, max_bytes: int) -> bytes | memoryview:
    """Returns the content of a chunk.

    Args:
        chunk: the chunk from a peer.
        max_bytes: the largest size that it may have.

    Raises:
        BadData: it is empty or damaged, or has more bytes.
    """
    content = chunk.content  # of a message: every access copies
    size = chunk.unpacked_bytes or len(content)
    if not 0 < size <= max_bytes:
        raise BadData(f"a chunk has {size} bytes; 1 to {max_bytes} are expected")
    if not chunk.unpacked_bytes:
        return content
    if size > CHUNK_BYTES or len(content) > size + _MAX_GROWTH:
        raise BadData(f"a compressed chunk has {size} bytes; at most {CHUNK_BYTES} are allowed")
    decompressor = zlib.decompressobj()
    try:
        # One byte more, without which the end of the data might not be read.
        result = decompressor.decompress(content, size + 1)
    except zlib.error as error:
        raise BadData(f"a compressed chunk is damaged: {error}") from None
    if len(result) != size or not decompressor.eof or decompressor.unused_data:
        raise BadData(f"a compressed chunk does not have the {size} bytes that it announces")
    return result
