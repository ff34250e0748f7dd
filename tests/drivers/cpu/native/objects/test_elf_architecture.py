"""Relocations of each architecture: fields of instructions, distances, and what does not fit."""

import struct
from dataclasses import dataclass, field

import pytest

from neurald.drivers.cpu.native.objects.elf_architecture import ARCHITECTURES, Architecture, NotLinkable

X86_64, AARCH64 = (
    next(each for each in ARCHITECTURES.values() if each.name == name) for name in ("x86_64", "aarch64")
)

SITE = 0x1004


@dataclass
class Places:
    """A linker whose image has jumps and slots at given places."""

    jump: int = 0
    slot: int = 0
    content: bytearray = field(default_factory=lambda: bytearray(0x3000))
    addresses: list[int] = field(default_factory=list)

    def place_of(self, target: str | int) -> int:
        return self.jump if isinstance(target, str) else target

    def slot_of(self, target: str | int) -> int:
        return self.slot

    def add_address(self, site: int) -> None:
        self.addresses.append(site)


def applied(
    architecture: Architecture,
    kind: int,
    target: str | int,
    addend: int = 0,
    *,
    before: int = 0,
    jump: int = 0,
    slot: int = 0,
) -> int:
    """Returns the 32 bits at SITE after a relocation of `before`."""
    linker = Places(jump=jump, slot=slot)
    struct.pack_into("<I", linker.content, SITE, before)
    assert architecture.apply(linker, kind, SITE, target, addend)
    return int(struct.unpack_from("<I", linker.content, SITE)[0])


@pytest.mark.parametrize("architecture", [X86_64, AARCH64], ids=lambda each: each.name)
def test_addresses(architecture: Architecture) -> None:
    linker = Places()
    kind = 1 if architecture is X86_64 else 257
    assert architecture.apply(linker, kind, SITE, 0x2000, 8)
    assert struct.unpack_from("<q", linker.content, SITE) == (0x2008,)
    assert linker.addresses == [SITE]
    with pytest.raises(NotLinkable, match="the address of labs"):
        architecture.apply(linker, kind, SITE, "labs", 0)
    assert not architecture.apply(linker, 9999, SITE, 0x2000, 0)


def test_distances_of_x86_64() -> None:
    assert applied(X86_64, 2, 0x2000, -4) == 0x2000 - 4 - SITE
    assert applied(X86_64, 4, "labs", -4, jump=0x1800) == 0x1800 - 4 - SITE
    assert applied(X86_64, 42, "labs", -4, slot=0x1010) == 0x1010 - 4 - SITE


@pytest.mark.parametrize(
    ("kind", "target", "before", "after"),
    [
        # adrp x0: pages in bits 29 to 30 and 5 to 23.
        (275, 0x2345, 0x90000000, 0xB0000000),
        (275, 0x0345, 0x90000000, 0xF0FFFFE0),
        # add x0, x0, #0x345; ldrb, ldrh, ldr w0, x0 and q0, [x0, #…] scale it by the size.
        (277, 0x2345, 0x91000000, 0x910D1400),
        (278, 0x2345, 0x39400000, 0x394D1400),
        (284, 0x2346, 0x79400000, 0x79468C00),
        (285, 0x2344, 0xB9400000, 0xB9434400),
        (286, 0x2348, 0xF9400000, 0xF941A400),
        (299, 0x2340, 0x3DC00000, 0x3DC0D000),
        # bl, b, b.eq and tbz, forwards and backwards, in words.
        (283, SITE + 8, 0x94000000, 0x94000002),
        (282, SITE - 8, 0x14000000, 0x17FFFFFE),
        (280, SITE - 4, 0x54000000, 0x54FFFFE0),
        (279, SITE + 4, 0x36000000, 0x36000020),
        # A distance in data.
        (261, SITE + 100, 0, 100),
    ],
)
def test_instructions_of_aarch64(kind: int, target: int, before: int, after: int) -> None:
    assert applied(AARCH64, kind, target, before=before) == after


def test_slots_of_aarch64() -> None:
    assert applied(AARCH64, 311, "labs", before=0x90000000, slot=0x2018) == 0xB0000000
    assert applied(AARCH64, 312, "labs", before=0xF9400000, slot=0x2018) == 0xF9400C00


def test_jumps() -> None:
    content = bytearray(0x3000)
    X86_64.write_jump(content, 0x10, 0x2008)
    assert content[0x10:0x16] == b"\xff\x25" + struct.pack("<i", 0x2008 - 0x16)
    AARCH64.write_jump(content, 0x20, 0x2018)
    assert struct.unpack_from("<3I", content, 0x20) == (0xD0000010, 0xF9400E10, 0xD61F0200)


@pytest.mark.parametrize(
    ("kind", "target", "message"),
    [
        (275, 1 << 34, "pages does not fit"),
        (283, 1 << 30, "does not fit in 26 bits"),
        (279, 1 << 20, "does not fit in 14 bits"),
        (286, 0x2344, "not a multiple of 8"),
        (299, 0x2348, "not a multiple of 16"),
    ],
)
def test_what_does_not_fit(kind: int, target: int, message: str) -> None:
    with pytest.raises(NotLinkable, match=message):
        applied(AARCH64, kind, target)
