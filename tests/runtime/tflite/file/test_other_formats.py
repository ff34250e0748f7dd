"""Files of other formats are recognised, whose users are told what to do."""

import gzip
import io
import zipfile

import numpy as np
import pytest

import neurald as nd
from neurald.runtime.tflite.file.other_formats import HEAD_BYTES, other_format


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.tflite", b"TFL3")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "git lfs pull"),
        (b"\n\n<!DOCTYPE html><html>", "web page"),
        (b"<HTML>404 Not Found", "web page"),
        (zipped(), "extract"),
        (gzip.compress(b"TFL3", mtime=0), "extract"),
        (b"\x89HDF\r\n\x1a\n" + bytes(8), "TFLiteConverter"),
        (b"\x08\x08\x12\x07pytorch\x1a\x05", "onnx2tf"),
        (b"\x89PNG\r\n\x1a\n" + bytes(8), "picture"),
        (bytes(HEAD_BYTES), "zeros"),
    ],
    # Archives contain the time, and all processes that run tests must name them in the same way.
    ids=["LFS pointer", "page", "old page", "ZIP", "gzip", "HDF5", "ONNX", "PNG", "zeros"],
)
def test_what_is_given_instead_of_a_model(content: bytes, words: str) -> None:
    with pytest.raises(nd.BadData, match=r"it is not a \.tflite file, but a") as caught:
        nd.load_tflite(content)
    assert words in str(caught.value)


def test_models_and_unknown_bytes_are_no_other_format() -> None:
    assert other_format(b"") is None
    assert other_format(b"\x1c\x00\x00\x00TFL3" + bytes(HEAD_BYTES)) is None
    generator = np.random.default_rng(0)
    recognised = sum(other_format(generator.bytes(HEAD_BYTES)) is not None for _ in range(10_000))
    assert recognised <= 5
