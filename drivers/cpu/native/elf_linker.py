"""Minimal x86-64 linker for the objects that LLVM generates from this driver's code.

It supports position-independent objects without variables. Unwind tables are dropped, since
exceptions never pass through the code. Other objects are rejected, so that a general linker can
link them.

An image consists of the functions and a jump for each imported function, followed on the next page
by the constants and the address slots that jumps and indirect loads read.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterable

from msgspec import Struct

from neurald.drivers.cpu.native.image import Image

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

#: Start of a relocatable 64-bit ELF object (class, byte order, version), its type and the machine
#: x86-64.
_IDENTITY = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62

_PROGBITS, _SYMBOLS, _RELOCATIONS, _NOBITS, _UNWIND = 1, 2, 4, 8, 0x70000001
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED, _RESERVED = 0, 0xFF00
_LOCAL, _WEAK = 0, 2
_FUNCTION, _SECTION_SYMBOL = 2, 3
_NAMED = frozenset((0, 1, _FUNCTION, _SECTION_SYMBOL))

# Relocations: relative, relative to a function, absolute, and relative to an address slot.
_PC32, _PLT32, _ADDRESS = 2, 4, 1
_GOT_DISTANCES = frozenset((9, 41, 42))

#: `jmp *[rip + distance]`, padded with zeros.
_JUMP = b"\xff\x25"
_JUMP_BYTES = 8
_ADDRESS_BYTES = 8
_ALIGNMENT = 64
#: Larger than any model's code, but within the range of relative addresses.
_MAX_BYTES = 1 << 30


class NotLinkable(Exception):
    """An object uses a feature that this linker does not support."""


def is_linkable_here() -> bool:
    """Returns True if this machine can run images from `link`."""
    return os.uname().machine == "x86_64"


def link(codes: Iterable[bytes]) -> Image:
    """Links objects, which may call functions of each other and of the process, to an image.

    Args:
        codes: the objects.

    Raises:
        NotLinkable: an object is not for x86-64, or uses unsupported features.
    """
    try:
        linker = _Linker([_Object(code) for code in codes])
        return linker.image()
    except (struct.error, LookupError, ValueError) as error:
        raise NotLinkable(f"an object is damaged: {error}") from None


class _Section(Struct, frozen=True, kw_only=True):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class _Symbol(Struct, frozen=True, kw_only=True):
    name: str
    kind: int
    binding: int
    section: int
    value: int


class _Object:
    """A parsed relocatable object."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        header = _HEADER.unpack_from(code)
        if not code.startswith(_IDENTITY) or header[1:3] != (_RELOCATABLE, _X86_64):
            raise NotLinkable("not a relocatable object for x86-64")
        start, count, names = header[6], header[12], header[13]
        found = [_SECTION.unpack_from(code, start + _SECTION.size * n) for n in range(count)]
        texts = found[names][4]
        self.sections = [
            _Section(
                name=self._text(texts + each[0]),
                kind=each[1],
                flags=each[2],
                offset=each[4],
                size=each[5],
                link=each[6],
                info=each[7],
                alignment=max(1, each[8]),
            )
            for each in found
        ]
        for section in self.sections:
            if section.kind != _NOBITS and section.offset + section.size > len(code):
                raise NotLinkable(f"section {section.name} extends beyond the object")
        self.symbols = [
            symbol for section in self.sections if section.kind == _SYMBOLS for symbol in self._read(section)
        ]

    def _text(self, offset: int) -> str:
        return self.code[offset : self.code.index(0, offset)].decode()

    def _read(self, table: _Section) -> Iterable[_Symbol]:
        texts = self.sections[table.link].offset
        content = self.code[table.offset : table.offset + table.size]
        for name, about, _, section, value, _ in _SYMBOL.iter_unpack(content):
            yield _Symbol(
                name=self._text(texts + name),
                kind=about & 15,
                binding=about >> 4,
                section=section,
                value=value,
            )

    def relocations(self) -> Iterable[tuple[int, Iterable[tuple[int, int, int]]]]:
        """Yields for each section its relocations as (offset, kind and symbol, addend)."""
        for section in self.sections:
            if section.kind == _RELOCATIONS:
                content = self.code[section.offset : section.offset + section.size]
                yield section.info, _RELOCATION.iter_unpack(content)


class _Linker:
    """State of linking objects to an image."""

    def __init__(self, objects: list[_Object]) -> None:
        self._objects = objects
        self._content = bytearray()
        #: Offset of each section of each object in the image.
        self._placed: list[dict[int, int]] = [{} for _ in objects]
        self._globals: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._jumps: dict[str, int] = {}
        self._slots: dict[str | int, int] = {}
        self._imports: list[tuple[str, int]] = []
        self._addresses: list[int] = []

    def image(self) -> Image:
        """Builds the image."""
        self._place(lambda section: bool(section.flags & _EXECUTE))
        for name in self._undefined_functions():
            self._align(_JUMP_BYTES)
            self._jumps[name] = len(self._content)
            self._content += bytes(_JUMP_BYTES)
        self._align(mmap.PAGESIZE)
        code_bytes = len(self._content)
        self._place(lambda section: not section.flags & _EXECUTE)
        for number, each in enumerate(self._objects):
            self._define(each, self._placed[number])
        for name, offset in self._jumps.items():
            struct.pack_into("<2si", self._content, offset, _JUMP, self._slot(name) - offset - 6)
        for number, each in enumerate(self._objects):
            self._relocate(each, self._placed[number])
        return Image(
            content=bytes(self._content),
            code_bytes=code_bytes,
            functions=self._functions,
            imports=tuple(self._imports),
            addresses=tuple(self._addresses),
        )

    def _align(self, alignment: int) -> None:
        self._content += bytes(-len(self._content) % alignment)
        if len(self._content) > _MAX_BYTES:
            raise NotLinkable(f"the code exceeds {_MAX_BYTES} bytes")

    def _place(self, is_wanted: Callable[[_Section], bool]) -> None:
        for each, placed in zip(self._objects, self._placed, strict=True):
            for number, section in enumerate(each.sections):
                if not section.flags & _ALLOC or not section.size or section.kind == _UNWIND:
                    continue
                if not is_wanted(section):
                    continue
                is_variable = section.flags & _WRITE and not section.name.startswith(".data.rel.ro")
                if section.kind != _PROGBITS or is_variable:
                    raise NotLinkable(f"unsupported section {section.name} of kind {section.kind}")
                if section.alignment > _ALIGNMENT:
                    raise NotLinkable(
                        f"section {section.name} requires an alignment of {section.alignment} bytes; at most {_ALIGNMENT} is supported"
                    )
                self._align(section.alignment)
                placed[number] = len(self._content)
                self._content += each.code[section.offset : section.offset + section.size]

    def _undefined_functions(self) -> list[str]:
        """Returns the functions that no object defines."""
        wanted, given = dict[str, None](), set[str]()
        for each in self._objects:
            for symbol in each.symbols:
                if symbol.binding != _LOCAL and symbol.section == _UNDEFINED:
                    wanted[symbol.name] = None
                elif symbol.binding != _LOCAL:
                    given.add(symbol.name)
        return [name for name in wanted if name not in given]

    def _define(self, each: _Object, placed: dict[int, int]) -> None:
        """Records the offsets of an object's global symbols."""
        for symbol in each.symbols:
            if symbol.binding == _LOCAL or symbol.section == _UNDEFINED:
                continue
            if symbol.binding == _WEAK or symbol.kind not in _NAMED or symbol.section not in placed:
                raise NotLinkable(
                    f"symbol {symbol.name} has unsupported kind {symbol.kind} in section {symbol.section}"
                )
            if symbol.name in self._globals:
                raise NotLinkable(f"{symbol.name} is defined twice")
            self._globals[symbol.name] = placed[symbol.section] + symbol.value
            if symbol.kind == _FUNCTION:
                self._functions[symbol.name] = self._globals[symbol.name]

    def _slot(self, target: str | int) -> int:
        """Returns the offset of the address slot for an imported function or an image offset."""
        if target not in self._slots:
            self._align(_ADDRESS_BYTES)
            offset = self._slots[target] = len(self._content)
            if isinstance(target, str):
                self._imports.append((target, offset))
            else:
                self._addresses.append(offset)
            self._content += struct.pack("<Q", target if isinstance(target, int) else 0)
        return self._slots[target]

    def _relocate(self, each: _Object, placed: dict[int, int]) -> None:
        targets = [self._target(symbol, placed) for symbol in each.symbols]
        for section, relocations in each.relocations():
            start = placed.get(section)
            if start is None:
                continue
            size = each.sections[section].size
            for offset, about, addend in relocations:
                kind, target = about & 0xFFFFFFFF, targets[about >> 32]
                width = _ADDRESS_BYTES if kind == _ADDRESS else 4
                if target is None or offset + width > size:
                    raise NotLinkable(
                        f"unsupported relocation {kind} at offset {offset} of section {section}"
                    )
                site = start + offset
                if kind in (_PC32, _PLT32):
                    found = self._jumps[target] if isinstance(target, str) else target
                    struct.pack_into("<i", self._content, site, found + addend - site)
                elif kind in _GOT_DISTANCES:
                    struct.pack_into("<i", self._content, site, self._slot(target) + addend - site)
                elif kind == _ADDRESS and isinstance(target, int):
                    struct.pack_into("<q", self._content, site, target + addend)
                    self._addresses.append(site)
                else:
                    raise NotLinkable(f"unsupported relocation {kind} to {target}")

    def _target(self, symbol: _Symbol, placed: dict[int, int]) -> str | int | None:
        """Returns the target of a symbol: an imported function, an offset in the image, or None."""
        if symbol.section == _UNDEFINED:
            return self._globals.get(symbol.name, symbol.name) if symbol.name else None
        if symbol.section >= _RESERVED or symbol.section not in placed:
            return None
        return placed[symbol.section] + symbol.value
