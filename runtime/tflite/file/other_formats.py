"""Recognises files of other formats, which are given instead of a model by mistake."""

from collections.abc import Sequence
from typing import Final, NamedTuple

#: Number of bytes at the start of a file by which its format is recognised.
HEAD_BYTES: Final = 64


class _Format(NamedTuple):
    """A format, by the bytes with which its files begin.

    Attributes:
        starts: with one of these its files begin, in lower case.
        what: what such a file is.
        remedy: what to do about it.
    """

    starts: Sequence[bytes]
    what: str
    remedy: str


_FORMATS: Final = (
    _Format(
        (b"version https://git-lfs",),
        "a pointer to a file in Git LFS",
        "`git lfs pull` fetches the file itself",
    ),
    _Format(
        (b"<!doctype", b"<html", b"<?xml", b"<head"),
        "a web page",
        "download the file itself, not the page that shows it",
    ),
    _Format(
        (b"pk\x03\x04", b"pk\x05\x06"),
        "a ZIP archive, as .task and .keras files are",
        "if it contains a .tflite file, extract that",
    ),
    _Format((b"\x1f\x8b",), "a gzip archive", "extract it first"),
    _Format(
        (b"bzh", b"\xfd7zxz", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf"), "a compressed file", "extract it first"
    ),
    _Format(
        (b"\x89hdf",), "an HDF5 file, as Keras writes", "convert the model with TensorFlow's TFLiteConverter"
    ),
    _Format(
        (b"litertlm",), "a file of LiteRT-LM", "extract its .tflite sections with the tools of LiteRT-LM"
    ),
    _Format((b"gguf",), "a GGUF file", "neurald runs .tflite files"),
    _Format((b"\x89png", b"\xff\xd8\xff", b"gif8", b"riff"), "a picture or a sound", "name the model first"),
    _Format((b"%pdf",), "a PDF file", "download the model itself"),
)
#: ONNX is a message of Protocol Buffers without a mark: field 1 is the version of the format, and
#: one of these fields follows, the name of the tool that wrote it among them.
_ONNX_FIRST: Final = 0x08
_ONNX_VERSIONS: Final = range(1, 32)
_ONNX_SECOND: Final = (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A)


def other_format(head: bytes) -> str | None:
    """Says what a file is that is not a model, and what to do about it; None if that is unknown.

    Args:
        head: the first bytes of the file, `HEAD_BYTES` of them if it has as many.
    """
    # Pages may begin with blank lines.
    begins = head.lower(), head.lstrip().lower()
    for each in _FORMATS:
        if any(begin.startswith(tuple(each.starts)) for begin in begins):
            return f"{each.what}; {each.remedy}"
    if len(head) > 2 and head[0] == _ONNX_FIRST and head[1] in _ONNX_VERSIONS and head[2] in _ONNX_SECOND:
        return "an ONNX model, it seems; convert it, for instance with onnx2tf"
    if len(head) == HEAD_BYTES and not any(head):
        return "a file that begins with zeros only, as an incomplete download may"
    return None
