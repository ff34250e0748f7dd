"""The parts of linking that differ between processor architectures.

`Architecture.apply` fills in a place of the code that refers to something else, by a kind of
relocation. Its kinds and formulas are those of the ELF supplements for x86-64 and for 64-bit Arm. S
is the place referred to, P the place that refers, A a constant that is added, and G the address
slot of S.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Final, Protocol

_INT32, _UINT32, _INT64 = struct.Struct("<i"), struct.Struct("<I"), struct.Struct("<q")
_PAGE_BITS: Final = 12


class Slots(Protocol):
    """The linker, as architectures see it: offsets within the image."""

    content: bytearray

    def place_of(self, target: str | int) -> int:
        """Returns S: that of a function of the image, or of the jump to an imported one."""
        ...

    def slot_of(self, target: str | int) -> int:
        """Returns G."""
        ...

    def add_address(self, site: int) -> None:
        """Records that the address at `site` is relative to the image."""
        ...


class NotLinkable(Exception):
    """An object uses a feature that the linker does not support."""


#: Fills in the place `site` for a target and its addend.
_Rule = Callable[[Slots, int, str | int, int], None]


class Architecture:
    """A processor architecture.

    Args:
        name: as `uname` names it.
        number: the number of the architecture in ELF objects.
        jump_bytes: size of a jump to an imported function.
        write_jump: writes a jump at an offset of the content that goes where the slot at another
            offset says.
        rules: by kind of relocation.

    Attributes:
        name, number, jump_bytes, write_jump: see the arguments.
    """

    def __init__(
        self,
        name: str,
        number: int,
        jump_bytes: int,
        write_jump: Callable[[bytearray, int, int], None],
        rules: Mapping[int, _Rule],
    ) -> None:
        self.name = name
        self.number = number
        self.jump_bytes = jump_bytes
        self.write_jump = write_jump
        self._rules = rules

    def apply(self, slots: Slots, kind: int, site: int, target: str | int, addend: int) -> bool:
        """Fills in a place; returns False if the kind is not supported.

        Raises:
            NotLinkable: the distance is too large, or has an unsupported form.
        struct.error: the place is not within the content, or the distance is too large.
        """
        rule = self._rules.get(kind)
        if rule is None:
            return False
        rule(slots, site, target, addend)
        return True


def _address(slots: Slots, site: int, target: str | int, addend: int) -> None:
    """Writes S + A. Imported functions have no place, but a jump, which would be no address."""
    if not isinstance(target, int):
        raise NotLinkable(f"the address of {target} is wanted without a slot")
    _INT64.pack_into(slots.content, site, target + addend)
    slots.add_address(site)


# x86-64


def _distance(slots: Slots, site: int, target: str | int, addend: int) -> None:
    """Writes S + A - P in 32 bits."""
    _INT32.pack_into(slots.content, site, slots.place_of(target) + addend - site)


def _slot_distance(slots: Slots, site: int, target: str | int, addend: int) -> None:
    """Writes G + A - P in 32 bits."""
    _INT32.pack_into(slots.content, site, slots.slot_of(target) + addend - site)


def _write_x86_jump(content: bytearray, at: int, slot: int) -> None:
    """Writes `jmp *[rip + distance]`."""
    struct.pack_into("<2si", content, at, b"\xff\x25", slot - at - 6)


_X86_64: Final = Architecture(
    "x86_64",
    62,
    8,
    _write_x86_jump,
    {1: _address, 2: _distance, 4: _distance, **dict.fromkeys((9, 41, 42), _slot_distance)},
)

# 64-bit Arm


def _insert(content: bytearray, site: int, value: int, bits: int, shift: int, *, is_signed: bool) -> None:
    """Writes a field of an instruction, whose other bits stay.

    Raises:
        NotLinkable: the value does not fit.
    """
    low, high = (-(1 << bits - 1), 1 << bits - 1) if is_signed else (0, 1 << bits)
    if not low <= value < high:
        raise NotLinkable(f"{value} does not fit in {bits} bits")
    mask = (1 << bits) - 1
    (word,) = _UINT32.unpack_from(content, site)
    _UINT32.pack_into(content, site, word & ~(mask << shift) | (value & mask) << shift)


def _insert_page(content: bytearray, site: int, to: int) -> None:
    """Writes the distance between the 4 KiB pages of two places into `adrp`."""
    pages = (to >> _PAGE_BITS) - (site >> _PAGE_BITS)
    if not -(1 << 20) <= pages < 1 << 20:
        raise NotLinkable(f"a distance of {pages} pages does not fit")
    _insert(content, site, pages & 3, 2, 29, is_signed=False)
    _insert(content, site, pages >> 2, 19, 5, is_signed=True)


def _page(slots: Slots, site: int, target: str | int, addend: int) -> None:
    _insert_page(slots.content, site, slots.place_of(target) + addend)


def _slot_page(slots: Slots, site: int, target: str | int, addend: int) -> None:
    _insert_page(slots.content, site, slots.slot_of(target) + addend)


def _insert_rest(content: bytearray, site: int, to: int, scale_bits: int) -> None:
    """Writes the position in its page, in units of the accessed size."""
    rest = to & (1 << _PAGE_BITS) - 1
    if rest & (1 << scale_bits) - 1:
        raise NotLinkable(f"offset {rest} in a page is not a multiple of {1 << scale_bits}")
    _insert(content, site, rest >> scale_bits, 12, 10, is_signed=False)


def _rest(scale_bits: int) -> _Rule:
    def rule(slots: Slots, site: int, target: str | int, addend: int) -> None:
        _insert_rest(slots.content, site, slots.place_of(target) + addend, scale_bits)

    return rule


def _slot_rest(slots: Slots, site: int, target: str | int, addend: int) -> None:
    _insert_rest(slots.content, site, slots.slot_of(target) + addend, 3)


def _branch(bits: int, shift: int) -> _Rule:
    """Returns the rule that writes S + A - P in instructions."""

    def rule(slots: Slots, site: int, target: str | int, addend: int) -> None:
        distance = slots.place_of(target) + addend - site
        _insert(slots.content, site, distance >> 2, bits, shift, is_signed=True)

    return rule


def _wide_distance(slots: Slots, site: int, target: str | int, addend: int) -> None:
    """Writes S + A - P in 64 bits."""
    _INT64.pack_into(slots.content, site, slots.place_of(target) + addend - site)


def _write_arm_jump(content: bytearray, at: int, slot: int) -> None:
    """Writes `adrp x16, slot; ldr x16, [x16, slot]; br x16`."""
    struct.pack_into("<3I", content, at, 0x90000010, 0xF9400210, 0xD61F0200)
    _insert_page(content, at, slot)
    _insert_rest(content, at + 4, slot, 3)


_AARCH64: Final = Architecture(
    "aarch64",
    183,
    16,
    _write_arm_jump,
    {
        257: _address,
        260: _wide_distance,
        261: _distance,
        275: _page,
        277: _rest(0),
        278: _rest(0),
        279: _branch(14, 5),
        280: _branch(19, 5),
        282: _branch(26, 0),
        283: _branch(26, 0),
        284: _rest(1),
        285: _rest(2),
        286: _rest(3),
        299: _rest(4),
        311: _slot_page,
        312: _slot_rest,
    },
)

#: The architectures, by their numbers in ELF objects.
ARCHITECTURES: Final[Mapping[int, Architecture]] = {each.number: each for each in (_X86_64, _AARCH64)}
