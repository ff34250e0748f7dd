"""Linked machine code as data, and in memory.

What a linker has to know is done with when an image is made (`neurald.drivers.cpu.native.elf_linker`): the distances between its functions
and constants are fixed. All that is left to do in a process is to copy it, to write the addresses of functions of the C library
into it, and to make it executable. Nothing of it can be written afterwards.
"""

import ctypes
import mmap
import os
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import msgspec

from neurald.hal.errors import BadData, OutOfMemory

_MAGIC = b"nimg0001"
_ADDRESS_BYTES = 8


class Image(msgspec.Struct, frozen=True, array_like=True):
    """Code and constants, wherever they will lie.

    Attributes:
        content: the code, then what is only read.
        code_bytes: of the code; whole pages.
        functions: where each begins that can be called from outside.
        imports: functions of the process, by name, and where in `content` the address of each is to be.
        addresses: where the image's own address is to be added to what is there.
    """

    content: bytes
    code_bytes: int
    functions: dict[str, int]
    imports: tuple[tuple[str, int], ...] = ()
    addresses: tuple[int, ...] = ()

    def encoded(self) -> bytes:
        """What `decoded` takes."""
        return _MAGIC + msgspec.msgpack.encode(self)


def is_image(code: bytes) -> bool:
    """Whether these bytes are an encoded image."""
    return code.startswith(_MAGIC)


def decoded(code: bytes) -> Image:
    """The image of `Image.encoded`.

    Raises:
        BadData: it is none, or its parts contradict each other. What its code does is not looked at.
    """
    if not is_image(code):
        raise BadData("this is no image of code")
    try:
        image = msgspec.msgpack.decode(memoryview(code)[len(_MAGIC) :], type=Image)
    except msgspec.DecodeError as error:
        raise BadData(f"this is no image of code: {error}") from None
    size = len(image.content)
    if not 0 <= image.code_bytes <= size or image.code_bytes % mmap.PAGESIZE:
        raise BadData(f"an image of {size} bytes has {image.code_bytes} bytes of code")
    if any(not 0 <= offset < image.code_bytes for offset in image.functions.values()):
        raise BadData("a function of an image is not in its code")
    places = (*(offset for _, offset in image.imports), *image.addresses)
    if any(not 0 <= offset <= size - _ADDRESS_BYTES for offset in places):
        raise BadData("an address in an image lies outside of it")
    return image


class LoadedImage:
    """An image in this process's memory, as long as this exists.

    Args:
        image: what to load.
        names: of the functions that will be called.

    Attributes:
        addresses: of these functions.

    Raises:
        BadData: it lacks one of them, or needs a function that the process does not have.
        OutOfMemory: there is no memory for it.
    """

    def __init__(self, image: Image, names: Sequence[str]) -> None:
        missing = [name for name in names if name not in image.functions]
        if missing:
            raise BadData(f"there is no function {missing[0]}")
        imports = {offset: _address_of(name) for name, offset in image.imports}
        size = max(len(image.content), 1)
        start = _mapped(size)
        # At the end of the process threads may still be in the code.
        self._unload = weakref.finalize(self, _library().munmap, start, size)
        self._unload.atexit = False
        ctypes.memmove(start, image.content, len(image.content))
        for offset in image.addresses:
            _word(start + offset).value += start
        for offset, address in imports.items():
            _word(start + offset).value = address
        _protect(start, image.code_bytes, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(start + image.code_bytes, size - image.code_bytes, mmap.PROT_READ)
        self.addresses: Mapping[str, int] = MappingProxyType(
            {name: start + image.functions[name] for name in names}
        )

    def keep_forever(self) -> None:
        """Leaves the code in memory when this object goes."""
        self._unload.detach()


@cache
def _library() -> Any:
    """The C library, with the types of what is called here."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library


def _mapped(size: int) -> int:
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start: int | None = _library().mmap(None, size, protection, flags, -1, 0)
    if start is None or start == ctypes.c_void_p(-1).value:
        raise OutOfMemory(f"{size} bytes for code: {os.strerror(ctypes.get_errno())}")
    return start


def _protect(start: int, size: int, protection: int) -> None:
    if size and _library().mprotect(start, size, protection):
        raise BadData(f"code may not become executable: {os.strerror(ctypes.get_errno())}")


def _word(address: int) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(address)


def _address_of(name: str) -> int:
    try:
        function = getattr(_library(), name)
    except AttributeError:
        raise BadData(f"the process has no function {name}") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0
