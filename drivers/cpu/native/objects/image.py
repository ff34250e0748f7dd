"""Linked machine code as data, and loaded into memory.

An image is fully linked (see `elf_linker`): the distances between its functions and constants are
fixed. Loading copies it, fills in the addresses of C library functions, and makes it
executable and read-only.
"""

import ctypes
import mmap
import struct
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

import msgspec

from neurald.hal.decoding import from_msgpack
from neurald.hal.errors import BadData, OutOfMemory
from neurald.hal.process.memory.mappings import map_anonymous, protect_memory, unmap_memory
from neurald.hal.records import DECODE_ERRORS

_MAGIC = b"nimg0001"
_ADDRESS_BYTES = 8
_WORD: Final = struct.Struct("<Q")
_MAX_WORD: Final = (1 << 64) - 1


class Image(msgspec.Struct, frozen=True, array_like=True):
    """Position-independent code and constants.

    Attributes:
        content: the code, then read-only data.
        code_bytes: size of the code, in whole pages.
        functions: offsets of functions that can be called from outside.
        imports: names of functions of the process, and the offset in `content` for the address of
            each.
        addresses: offsets of addresses that are relative to the image.
    """

    content: bytes
    code_bytes: int
    functions: dict[str, int]
    imports: tuple[tuple[str, int], ...] = ()
    addresses: tuple[int, ...] = ()

    def encoded(self) -> bytes:
        """Encodes the image for `decoded`."""
        return _MAGIC + msgspec.msgpack.encode(self)


def is_image(code: bytes) -> bool:
    """Returns True if these bytes are an encoded image."""
    return code.startswith(_MAGIC)


def decoded(code: bytes) -> Image:
    """Decodes an image from `Image.encoded`.

    Raises:
        BadData: it is invalid or inconsistent. The code itself is not verified.
    """
    if not is_image(code):
        raise BadData("not a code image")
    try:
        image = from_msgpack(memoryview(code)[len(_MAGIC) :], Image)
    except DECODE_ERRORS as error:
        raise BadData(f"not a code image: {error}") from None
    size = len(image.content)
    if not 0 <= image.code_bytes <= size or image.code_bytes % mmap.PAGESIZE:
        raise BadData(f"an image of {size} bytes has {image.code_bytes} bytes of code")
    offsets = image.functions.values()
    if offsets and not 0 <= min(offsets) <= max(offsets) < image.code_bytes:
        raise BadData("a function of the image is outside its code")
    slots = [*(offset for _, offset in image.imports), *image.addresses]
    if slots and not 0 <= min(slots) <= max(slots) <= size - _ADDRESS_BYTES:
        raise BadData("an address slot of the image is outside it")
    return image


class LoadedImage:
    """An image loaded into this process for the lifetime of this object.

    Args:
        image: the image.
        names: functions that will be called.
        given: addresses of what the image imports beside functions of the C library, by name.

    Attributes:
        addresses: the addresses of the functions that will be called.

    Raises:
        BadData: a function is missing, or the process lacks an import.
        OutOfMemory: there is no memory for it.
    """

    def __init__(
        self, image: Image, names: Sequence[str], given: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        missing = [name for name in names if name not in image.functions]
        if missing:
            raise BadData(f"the image has no function {missing[0]}")
        size = max(len(image.content), 1)
        start = _mapped(size)
        # At process exit threads may still run the code.
        self._unload = weakref.finalize(self, unmap_memory, start, size)
        self._unload.atexit = False
        content = image.content
        if image.imports or image.addresses:
            changed = bytearray(content)
            for offset in image.addresses:
                (relative,) = _WORD.unpack_from(changed, offset)
                _WORD.pack_into(changed, offset, relative + start & _MAX_WORD)
            for name, offset in image.imports:
                address = given[name] if name in given else _address_of(name)
                _WORD.pack_into(changed, offset, address)
            content = bytes(changed)
        ctypes.memmove(start, content, len(content))
        _protect(start, image.code_bytes, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(start + image.code_bytes, size - image.code_bytes, mmap.PROT_READ)
        self.addresses: Mapping[str, int] = MappingProxyType(
            {name: start + image.functions[name] for name in names}
        )

    def keep_forever(self) -> None:
        """Leaves the code in memory when this object is freed."""
        self._unload.detach()


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _mapped(size: int) -> int:
    try:
        return map_anonymous(size)
    except OSError as error:
        raise OutOfMemory(f"cannot map {size} bytes for code: {error.strerror}") from None


def _protect(start: int, size: int, protection: int) -> None:
    try:
        if size:
            protect_memory(start, size, protection)
    except OSError as error:
        raise BadData(f"cannot make code executable: {error.strerror}") from None


@cache
def _address_of(name: str) -> int:
    try:
        function = getattr(_library(), name)
    except AttributeError:
        raise BadData(f"the process has no function {name}") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0
