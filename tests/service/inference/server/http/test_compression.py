"""Compression of answers over HTTP."""

import asyncio
import gzip
import json
import urllib.request
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.server.http.compression import (
    IDENTITY,
    chosen_encoding,
    compressed,
    decompressed,
    encoding_of,
)


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (b"", b""),
        (b"identity", b""),
        (b"br, zstd", b""),
        (b"gzip", b"gzip"),
        (b"GZIP , deflate", b"gzip"),
        (b"deflate, gzip", b"deflate"),
        (b"gzip;q=0.2, deflate;q=0.5", b"deflate"),
        (b"gzip;q=0, deflate; q=0", b""),
        (b"gzip;q=many, deflate", b"deflate"),
    ],
)
def test_the_preferred_encoding_is_chosen(accepted: bytes, expected: bytes) -> None:
    assert chosen_encoding(accepted) == expected


@pytest.mark.parametrize("size", [0, 10, 1 << 20])
def test_what_is_compressed_is_the_same(size: int) -> None:
    content = bytes(range(250)) * (size // 250)
    assert gzip.decompress(asyncio.run(compressed(content, b"gzip"))) == content
    assert zlib.decompress(asyncio.run(compressed(content, b"deflate"))) == content


def test_answers_are_compressed_if_clients_ask(tmp_path: Path) -> None:
    zoo.write_plain(tmp_path, "same", zoo.reshaping(count=10_000))
    tensor = {"name": "x", "shape": [1, 10_000], "datatype": "FP32", "data": [0.0] * 10_000}
    body = json.dumps({"inputs": [tensor]}).encode()
    with Serving(tmp_path, grpc="") as service:
        service.wait_ready()
        url = f"http://{service.http}/v2/models/same/infer"
        for encoding, inflate in (("gzip", gzip.decompress), ("deflate", zlib.decompress)):
            request = urllib.request.Request(url, body, {"Accept-Encoding": encoding})
            with urllib.request.urlopen(request, timeout=60) as answer:
                content = answer.read()
                assert answer.headers["Content-Encoding"] == encoding
                assert len(content) < 10_000
                assert json.loads(inflate(content))["outputs"][0]["data"] == [0.0] * 10_000
        with urllib.request.urlopen(url, body, timeout=60) as answer:
            assert answer.headers["Content-Encoding"] is None


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (b"", IDENTITY),
        (b"Identity", IDENTITY),
        (b" GZIP", b"gzip"),
        (b"x-gzip", b"gzip"),
        (b"deflate", b"deflate"),
    ],
)
def test_encodings_of_requests(named: bytes, expected: bytes) -> None:
    assert encoding_of(named) == expected


@pytest.mark.parametrize("named", [b"br", b"gzip, gzip", b"\xff"])
def test_other_encodings_are_refused(named: bytes) -> None:
    with pytest.raises(ServiceError, match="identity, gzip or deflate") as caught:
        encoding_of(named)
    assert caught.value.status is Status.UNIMPLEMENTED


def inflated(content: bytes, encoding: bytes = b"gzip", most: int = 1 << 22) -> bytes:
    return asyncio.run(decompressed(content, encoding, most))


@pytest.mark.parametrize("size", [0, 10, 3_000_000])
def test_requests_are_decompressed(size: int) -> None:
    content = np.random.default_rng(0).bytes(size)
    for encoding, data in ((b"gzip", gzip.compress(content)), (b"deflate", zlib.compress(content))):
        assert inflated(data, encoding) == content
        if size:
            with pytest.raises(ServiceError, match="incomplete"):
                inflated(data[:-1], encoding)


def test_pieces_that_were_compressed_one_by_one() -> None:
    parts = [bytes([each]) * 30_000 for each in range(20)]
    data = b"".join(map(gzip.compress, parts))
    assert inflated(data) == b"".join(parts)
    with pytest.raises(ServiceError, match="not compressed as it says"):
        inflated(data + b"garbage")
    with pytest.raises(ServiceError, match="2 bytes follow"):
        inflated(zlib.compress(b"a") + b"bc", b"deflate")
    with pytest.raises(ServiceError, match="bytes follow"):
        inflated(gzip.compress(b"") * 5000)


def test_no_more_is_decompressed_than_may_be() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(inflated(bomb, most=1000)) == 1001
    assert len(inflated(gzip.compress(bytes(999)) * 2, most=1000)) == 1001
    assert len(inflated(gzip.compress(bytes(1000)), most=1000)) == 1000
