"""Minimal linker for the objects that LLVM generates from this driver's code.

It supports position-independent objects without variables, for x86-64 and 64-bit Arm. Unwind tables
are dropped, since exceptions never pass through the code. Other objects are rejected, so that a
general linker can link them.

An image consists of the functions and a jump for each imported function, followed on the next page
by the constants and the address slots that jumps and indirect loads read.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from neurald.drivers.cpu.native.objects.elf_architecture import ARCHITECTURES, Architecture, NotLinkable
from neurald.drivers.cpu.native.objects.image import Image

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

#: Start of a relocatable 64-bit ELF object (class, byte order, version), and its type.
_IDENTITY = b"\x7fELF\x02\x01\x01"
_RELOCATABLE = 1

_PROGBITS, _SYMBOLS, _RELOCATIONS, _NOBITS = 1, 2, 4, 8
_UNWIND = ".eh_frame"
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED, _RESERVED = 0, 0xFF00
_LOCAL, _WEAK = 0, 2
_FUNCTION, _SECTION_SYMBOL = 2, 3
_NAMED = frozenset((0, 1, _FUNCTION, _SECTION_SYMBOL))

_ADDRESS_BYTES = 8
#: The smallest place that refers to another one.
_MIN_PLACE_BYTES = 4
_ALIGNMENT = 64
#: Larger than any model's code, but within the range of relative addresses.
_MAX_BYTES = 1 << 30


def is_linkable_here() -> bool:
    """Returns True if this machine can run images from `link`."""
    return os.uname().machine in {each.name for each in ARCHITECTURES.values()}


def link(codes: Iterable[bytes]) -> Image:
    """Links objects, which may call functions of each other and of the process, to an image.

    Args:
        codes: the objects.

    Raises:
        NotLinkable: an object is for another architecture, or uses unsupported features.
    """
    try:
        objects = [_Object(code) for code in codes]
        return _Linker(objects, _architecture(objects)).image()
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
        if not code.startswith(_IDENTITY) or header[1] != _RELOCATABLE or header[2] not in ARCHITECTURES:
            names = " or ".join(each.name for each in ARCHITECTURES.values())
            raise NotLinkable(f"not a relocatable object for {names}")
        self.architecture = ARCHITECTURES[header[2]]
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


def _architecture(objects: Sequence[_Object]) -> Architecture:
    """Returns the architecture of all objects."""
    found = {each.architecture.name: each.architecture for each in objects}
    if len(found) != 1:
        raise NotLinkable(f"objects are wanted for one architecture; these are for {len(found)}")
    return next(iter(found.values()))


class _Linker:
    """State of linking objects to an image.

    Attributes:
        content: the image so far.
    """

    def __init__(self, objects: Sequence[_Object], architecture: Architecture) -> None:
        self._objects = objects
        self._architecture = architecture
        self.content = bytearray()
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
            self._align(self._architecture.jump_bytes)
            self._jumps[name] = len(self.content)
            self.content += bytes(self._architecture.jump_bytes)
        self._align(mmap.PAGESIZE)
        code_bytes = len(self.content)
        self._place(lambda section: not section.flags & _EXECUTE)
        for number, each in enumerate(self._objects):
            self._define(each, self._placed[number])
        for name, offset in self._jumps.items():
            self._architecture.write_jump(self.content, offset, self.slot_of(name))
        for number, each in enumerate(self._objects):
            self._relocate(each, self._placed[number])
        return Image(
            content=bytes(self.content),
            code_bytes=code_bytes,
            functions=self._functions,
            imports=tuple(self._imports),
            addresses=tuple(self._addresses),
        )

    def _align(self, alignment: int) -> None:
        self.content += bytes(-len(self.content) % alignment)
        if len(self.content) > _MAX_BYTES:
            raise NotLinkable(f"the code exceeds {_MAX_BYTES} bytes")

    def _place(self, is_wanted: Callable[[_Section], bool]) -> None:
        for each, placed in zip(self._objects, self._placed, strict=True):
            for number, section in enumerate(each.sections):
                if not section.flags & _ALLOC or not section.size or section.name == _UNWIND:
                    continue
                if not is_wanted(section):
                    continue
                is_variable = section.flags & _WRITE and not section.name.startswith(".data.rel.ro")
                if section.kind != _PROGBITS or is_variable:
                    raise NotLinkable(f"unsupported section {section.name} of kind {section.kind}")
                if section.alignment > _ALIGNMENT:
                    raise NotLinkable(
                        f"section {section.name} requires an alignment of {section.alignment} bytes; at most "
                        f"{_ALIGNMENT} is supported"
                    )
                self._align(section.alignment)
                placed[number] = len(self.content)
                self.content += each.code[section.offset : section.offset + section.size]

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

    def slot_of(self, target: str | int) -> int:
        """Returns the offset of the address slot for an imported function or an image offset."""
        if target not in self._slots:
            self._align(_ADDRESS_BYTES)
            offset = self._slots[target] = len(self.content)
            if isinstance(target, str):
                self._imports.append((target, offset))
            else:
                self._addresses.append(offset)
            self.content += struct.pack("<Q", target if isinstance(target, int) else 0)
        return self._slots[target]

    def place_of(self, target: str | int) -> int:
        """Returns the offset of a function or constant, for an imported one that of its jump."""
        return self._jumps[target] if isinstance(target, str) else target

    def add_address(self, site: int) -> None:
        """Records that an offset of the image holds an address that is relative to the image."""
        self._addresses.append(site)

    def _relocate(self, each: _Object, placed: dict[int, int]) -> None:
        targets = [self._target(symbol, placed) for symbol in each.symbols]
        for section, relocations in each.relocations():
            start = placed.get(section)
            if start is None:
                continue
            size = each.sections[section].size
            for offset, about, addend in relocations:
                kind, target = about & 0xFFFFFFFF, targets[about >> 32]
                if target is None or not 0 <= offset <= size - _MIN_PLACE_BYTES:
                    raise NotLinkable(
                        f"unsupported relocation {kind} at offset {offset} of section {section}"
                    )
                if not self._architecture.apply(self, kind, start + offset, target, addend):
                    raise NotLinkable(f"unsupported relocation {kind} to {target}")

    def _target(self, symbol: _Symbol, placed: dict[int, int]) -> str | int | None:
        """Returns the target of a symbol: an imported function, an offset in the image, or None."""
        if symbol.section == _UNDEFINED:
            return self._globals.get(symbol.name, symbol.name) if symbol.name else None
        if symbol.section >= _RESERVED or symbol.section not in placed:
            return None
        return placed[symbol.section] + symbol.value
