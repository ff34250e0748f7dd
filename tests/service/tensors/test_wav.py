import io
import struct

import numpy as np
import pytest

from neurald.hal.errors import BadData
from neurald.service.tensors.wav import read_header

GIVEN = np.array([[0, 0.5], [-0.5, 0.25], [0.99, -1]])
GUID_END = bytes.fromhex("000000001000800000aa00389b71")


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack("<4sI", name, len(content)) + content + b"\0" * (len(content) % 2)


def header(kind: int, width: int, channels: int = 2, *, is_extended: bool = False) -> bytes:
    frame = channels * width
    usual = struct.pack(
        "<HHIIHH", 0xFFFE if is_extended else kind, channels, 8_000, 8_000 * frame, frame, 8 * width
    )
    if is_extended:
        usual += struct.pack("<HHIH", 22, 8 * width, 3, kind) + GUID_END
    return chunk(b"fmt ", usual)


def stored(kind: int, width: int) -> bytes:
    if kind == 3:
        return GIVEN.astype(f"<f{width}").tobytes()
    if width == 1:
        return np.asarray(np.round(GIVEN * 127 + 128), np.uint8).tobytes()
    whole = (GIVEN * (2**31 - 1)).astype("<i4").reshape(-1, 1)
    return whole.view(np.uint8).reshape(-1, 4)[:, 4 - width :].tobytes()


def file(*chunks: bytes) -> io.BytesIO:
    content = b"WAVE" + b"".join(chunks)
    return io.BytesIO(struct.pack("<4sI", b"RIFF", len(content)) + content)


@pytest.mark.parametrize("is_extended", [False, True])
@pytest.mark.parametrize(("kind", "width"), [(1, 1), (1, 2), (1, 3), (1, 4), (3, 4), (3, 8)])
def test_all_kinds_of_samples(kind: int, width: int, is_extended: bool) -> None:
    source = file(
        chunk(b"LIST", b"odd"),
        header(kind, width, is_extended=is_extended),
        chunk(b"fact", bytes(4)),
        chunk(b"data", stored(kind, width)),
    )
    found = read_header(source)
    assert (found.rate, found.channels, found.width, found.is_float) == (8_000, 2, width, kind == 3)
    assert found.size_bytes == GIVEN.size * width
    samples = found.samples(source.read(found.size_bytes))
    np.testing.assert_allclose(samples, GIVEN, atol=0.01)
    # Frames that are cut off do not count.
    assert len(found.samples(stored(kind, width)[:-1])) == len(GIVEN) - 1


def test_floats_stay_in_the_range() -> None:
    source = file(header(3, 4, 1), chunk(b"data", np.array([7, -np.inf, np.nan], "<f4").tobytes()))
    assert read_header(source).samples(source.read()).ravel().tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (io.BytesIO(b"OggS" + bytes(20)), r"begins with b'OggS.*RIFF and WAVE are expected"),
        (io.BytesIO(b""), "begins with b''"),
        (file(), "no samples, or is cut off"),
        (file(chunk(b"data", bytes(4)), header(1, 2)), "come before the header"),
        (file(chunk(b"fmt ", bytes(3))), "header has 3 bytes; 16 are expected"),
        (file(header(85, 2)), r"format 85; integers \(1\) or floats \(3\) are expected"),
        (file(header(1, 2, 0)), "0 channels of 16 bits in frames of 0 bytes"),
        (file(header(3, 2)), "samples of 32 or 64 bits are expected"),
        (file(header(1, 8)), "samples of 8, 16, 24 or 32 bits are expected"),
    ],
)
def test_other_files(source: io.BytesIO, message: str) -> None:
    with pytest.raises(BadData, match=message):
        read_header(source)
