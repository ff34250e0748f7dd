"""Reads WAV files: integers of 8 to 32 bits and floats, also with the extended header.

Python's own reader refuses floats, and before Python 3.12 also extended headers, which many
programs write for more than 16 bits or two channels.
"""

import struct
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.wording import listed
from neurald.service.tensors.arrays import Array

_INTEGERS: Final = 1
_FLOATS: Final = 3
#: The format is in the first bytes of a GUID behind the usual header.
_EXTENDED: Final = 0xFFFE
_GUID_AT: Final = 24
_HEADER: Final = struct.Struct("<HHIIHH")
_CHUNK: Final = struct.Struct("<4sI")
#: Sizes in bytes of one sample, by format.
_WIDTHS: Final = {_INTEGERS: (1, 2, 3, 4), _FLOATS: (4, 8)}
_MAX_WIDTH: Final = 4  # of integers
#: Chunks of text and marks may come before the samples. A file of nothing but chunks of eight bytes
#: would take long to read.
_MAX_CHUNKS: Final = 1000
#: Longest header that is read; extended ones have 40 bytes.
_MAX_HEADER_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WavHeader:
    """Describes the samples of a WAV file, which are next in the file.

    Attributes:
        rate: samples per second of each channel.
        channels: number of channels, whose samples alternate.
        width: size in bytes of one sample.
        is_float: whether samples are floats, not integers.
        size_bytes: size of all samples, as the file states it; it may be cut off.
    """

    rate: int
    channels: int
    width: int
    is_float: bool
    size_bytes: int

    def samples(self, content: bytes) -> Array:
        """Returns stored samples as float64 from -1 to 1, of shape [moments, channels]."""
        whole = len(content) // (self.width * self.channels) * self.width * self.channels
        return _numbers(content[:whole], self.width, is_float=self.is_float).reshape(-1, self.channels)


def read_header(file: BinaryIO) -> WavHeader:
    """Reads a file up to its samples.

    Raises:
        BadData: it is not a WAV file, or its samples are of another kind.
    """
    start = file.read(12)
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        raise BadData(f"it begins with {start!r}; RIFF and WAVE are expected")
    header = None
    for _ in range(_MAX_CHUNKS):
        chunk = file.read(_CHUNK.size)
        if len(chunk) < _CHUNK.size:
            break
        name, size = _CHUNK.unpack(chunk)
        if name == b"data":
            if header is None:
                raise BadData("its samples come before the header that describes them")
            rate, channels, width, is_float = header
            return WavHeader(rate=rate, channels=channels, width=width, is_float=is_float, size_bytes=size)
        after = file.tell() + size + size % 2
        if name == b"fmt ":
            header = _described(file.read(min(size, _MAX_HEADER_BYTES)))
        file.seek(after)
    raise BadData("it has no samples, or is cut off before them")


def _described(header: bytes) -> tuple[int, int, int, bool]:
    """Returns rate, channels, the size of a sample, and whether samples are floats."""
    if len(header) < _HEADER.size:
        raise BadData(f"its header has {len(header)} bytes; {_HEADER.size} are expected at least")
    kind, channels, rate, _, frame, bits = _HEADER.unpack_from(header)
    if kind == _EXTENDED and len(header) >= _GUID_AT + 2:
        (kind,) = struct.unpack_from("<H", header, _GUID_AT)
    if kind not in _WIDTHS:
        raise BadData(f"its samples have the format {kind}; integers (1) or floats (3) are expected")
    width = (bits + 7) // 8
    if not channels or width not in _WIDTHS[kind] or frame != channels * width:
        raise BadData(
            f"it has {channels} channels of {bits} bits in frames of {frame} bytes; samples of "
            f"{listed([str(8 * each) for each in _WIDTHS[kind]], 'or')} bits are expected"
        )
    return rate, channels, width, kind == _FLOATS


def _numbers(content: bytes, width: int, *, is_float: bool) -> Array:
    if is_float:
        # What is not a number would spread to all of the output.
        found = np.nan_to_num(np.frombuffer(content, f"<f{width}").astype(np.float64))
        return np.clip(found, -1, 1)
    if width == 1:
        return (np.frombuffer(content, np.uint8).astype(np.float64) - 128) / 128
    stored = np.zeros((len(content) // width, _MAX_WIDTH), np.uint8)
    # The most significant bytes of 32 bits, so that all widths have the same range.
    stored[:, _MAX_WIDTH - width :] = np.frombuffer(content, np.uint8).reshape(-1, width)
    return stored.view("<i4").reshape(-1).astype(np.float64) / 2**31
