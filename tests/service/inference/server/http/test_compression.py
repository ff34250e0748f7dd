"""Compression of answers over HTTP."""

import asyncio
import gzip
import json
import urllib.request
import zlib
from pathlib import Path

import pytest
from support.inference import zoo
from support.inference.serving import Serving

from neurald.service.inference.server.http.compression import chosen_encoding, compressed


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
