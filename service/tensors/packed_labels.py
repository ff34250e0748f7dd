"""Reads the labels that are packed into a `.tflite` file, as TFLite's metadata tools do.

They append a zip archive with text files to the file.
"""

from pathlib import Path
from typing import BinaryIO

from neurald.hal.process.files.bounded_read import read_at_most
from neurald.service.tensors.files import open_archive, open_regular

_MAX_MEMBERS = 64
_MAX_BYTES = 1 << 20


def packed_labels(path: Path) -> list[str] | None:
    """Returns the lines of the only text file that is packed into a model.

    Returns:
        None if there is no such file, or several, or if it is damaged or too large.
    """
    try:
        with open_regular(path) as file:
            content = _content(file)
    # Damaged bytes make zipfile and its decompressors raise almost any exception.
    except Exception:
        return None
    if content is None or len(content) > _MAX_BYTES:
        return None
    try:
        lines = [line.strip() for line in content.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError:
        return None
    while lines and not lines[-1]:
        lines.pop()
    return lines or None


def _content(file: BinaryIO) -> bytes | None:
    """Returns the text file in a model, or the beginning of a very large one."""
    with open_archive(file) as archive:
        members = archive.infolist()
        texts = [each for each in members if each.filename.lower().endswith(".txt")]
        if len(members) > _MAX_MEMBERS or len(texts) != 1 or texts[0].file_size > _MAX_BYTES:
            return None
        with archive.open(texts[0]) as member:
            # The size in the directory may be wrong.
            return read_at_most(member, _MAX_BYTES)
