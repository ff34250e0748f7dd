"""Lookups of bytes, or of 16-bit words, in a table of 256 that is held in registers.

Registers of 64 bytes are permuted by bytes where the processor has an instruction for that, and by
words of 16 bits elsewhere. Those of 32 bytes are permuted in halves of 16 bytes, each of which
holds a sixteenth of the table: the lower four bits of an index choose a byte of each part, and the
upper four bits choose among these bytes. On 64-bit Arm, instructions look up 16 bytes in a quarter
of the table, and leave bytes unchanged whose indices are beyond it.

Words are looked up as their lower and upper bytes, where bytes are permuted.
"""

from collections.abc import Callable, Sequence

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import load
from neurald.drivers.cpu.target.target import Target

#: Entries of a table.
ENTRIES = 256
#: Sizes of registers that can be permuted.
_LONG_REGISTER, _SHORT_REGISTER = 64, 32
#: Registers of 64-bit Arm, and those that one of its instructions looks up bytes in.
_ARM_REGISTER, _QUARTER = 16, 4
#: 16-bit words of a long register, and bytes of a part of the table.
_WORDS, _PART = 32, 16


def is_permuted(target: Target, element: str, size_bytes: int) -> bool:
    """Returns True for a table that permutation instructions can index."""
    if element == "i16" and size_bytes == 2 * ENTRIES:
        return target.has_byte_permutes
    if element != "i8" or size_bytes != ENTRIES:
        return False
    return target.vector_bytes in (_LONG_REGISTER, _SHORT_REGISTER) or _has_quarters(target)


def has_cheap_lookups(target: Target) -> bool:
    """Returns True if lookups take few instructions for each register of bytes."""
    return target.has_byte_permutes or _has_quarters(target)


def _has_quarters(target: Target) -> bool:
    return target.machine == "aarch64"


def permuted_lanes(target: Target) -> int:
    """Returns how many bytes are looked up at once."""
    return target.vector_bytes // 2 if _by_words(target) else target.vector_bytes


def permuted(v: Vector, element: str, pointer: str, indices: str) -> str:
    """Looks up elements of a table of 256 (see `is_permuted`); any index is safe.

    Args:
        v: receives the instructions; has more than one lane.
        element: i8 or i16.
        pointer: the table.
        indices: indices of the elements, i16.
    """
    if element == "i16":
        return _words_of_bytes(v, pointer, v.cast("trunc", "i16", indices, "i8"))
    if _by_words(v.target):
        words = Vector(v.code, v.target, _WORDS)
        table = [load(words, "i16", pointer, str(part * _WORDS)) for part in range(4)]
        found = _in_parts(v, "i16", indices, lambda at: _permuted_words(words, table, at))
        return v.cast("trunc", "i16", found, "i8")
    places = v.cast("trunc", "i16", indices, "i8")
    if _has_quarters(v.target):
        return _in_parts(v, "i8", places, lambda at: _found_in_quarters(v, pointer, at))
    if v.target.vector_bytes == _SHORT_REGISTER:
        return _in_parts(v, "i8", places, lambda at: _permuted_halves(v, pointer, at))
    whole = Vector(v.code, v.target, _LONG_REGISTER)
    parts = [load(whole, "i8", pointer, str(first)) for first in range(0, ENTRIES, _LONG_REGISTER)]
    return _in_parts(v, "i8", places, lambda at: _permuted_bytes(whole, parts, at))


def _words_of_bytes(v: Vector, pointer: str, places: str) -> str:
    """Looks up words, whose lower bytes and whose upper bytes are separate tables in registers."""
    whole, count = Vector(v.code, v.target, _LONG_REGISTER), _LONG_REGISTER
    parts = [load(whole, "i8", pointer, str(first)) for first in range(0, 2 * ENTRIES, count)]
    found = []
    for first in range(2):
        table = [
            _chosen(whole, pair, range(first, 2 * count, 2))
            for pair in zip(parts[::2], parts[1::2], strict=True)
        ]
        found.append(_in_parts(v, "i8", places, lambda at, table=table: _permuted_bytes(whole, table, at)))  # type: ignore[misc]
    pairs = _chosen(v, found, [lane + part * v.lanes for lane in range(v.lanes) for part in range(2)])
    return v.code.value(
        f"bitcast {Vector(v.code, v.target, 2 * v.lanes).type('i8')} {pairs} to {v.type('i16')}"
    )


def _chosen(v: Vector, pair: Sequence[str], lanes: Sequence[int]) -> str:
    """Selects lanes of two vectors of bytes."""
    kind, chosen = v.type("i8"), ", ".join(f"i32 {lane}" for lane in lanes)
    return v.code.value(f"shufflevector {kind} {pair[0]}, {kind} {pair[1]}, <{len(lanes)} x i32> <{chosen}>")


def _by_words(target: Target) -> bool:
    return target.vector_bytes == _LONG_REGISTER and not target.has_byte_permutes


def _in_parts(v: Vector, element: str, indices: str, look_up: Callable[[str], str]) -> str:
    """Looks up as many elements at a time as there are in a register."""
    count = permuted_lanes(v.target)
    parts = []
    for first in range(0, v.lanes, count):
        at = _lanes_of(v, element, indices, [(first + lane) % v.lanes for lane in range(count)])
        parts.append(look_up(at))
    while len(parts) > 1:
        # Adjacent parts are concatenated; all have the same length, a power of two.
        length = count * (v.lanes // count // len(parts))
        kind, all_lanes = f"<{length} x {element}>", ", ".join(f"i32 {lane}" for lane in range(2 * length))
        parts = [
            v.code.value(f"shufflevector {kind} {low}, {kind} {high}, <{2 * length} x i32> <{all_lanes}>")
            for low, high in zip(parts[::2], parts[1::2], strict=True)
        ]
    if v.lanes > count:
        return parts[0]
    return _lanes_of(Vector(v.code, v.target, count), element, parts[0], range(v.lanes))


def _lanes_of(v: Vector, element: str, value: str, lanes: Sequence[int]) -> str:
    """Selects lanes of a vector."""
    if list(lanes) == list(range(v.lanes)):
        return value
    chosen = ", ".join(f"i32 {lane}" for lane in lanes)
    kind = v.type(element)
    return v.code.value(f"shufflevector {kind} {value}, {kind} poison, <{len(lanes)} x i32> <{chosen}>")


def _permuted_bytes(whole: Vector, table: Sequence[str], at: str) -> str:
    """Looks up 64 bytes: one of each half of the table, of which the upper bit chooses one."""
    low, high = (_permuted(whole, "i8", "qi", table[part], at, table[part + 1]) for part in (0, 2))
    return whole.select(whole.compare("slt", "i8", at, whole.number("i8", 0)), "i8", high, low)


def _permuted_halves(v: Vector, pointer: str, at: str) -> str:
    """Looks up 32 bytes: one of each part of the table, of which the upper bits choose one."""
    whole, part = Vector(v.code, v.target, _SHORT_REGISTER), Vector(v.code, v.target, _PART)
    kind, name = whole.type("i8"), "@llvm.x86.avx2.pshuf.b"
    v.code.declarations.add(f"declare {kind} {name}({kind}, {kind})")
    lower = whole.binary("and", "i8", at, whole.number("i8", _PART - 1))
    twice = ", ".join(f"i32 {lane % _PART}" for lane in range(_SHORT_REGISTER))
    # An instruction chooses by the sign of each byte.
    choices = [
        whole.compare(
            "slt",
            "i8",
            whole.binary("shl", "i8", at, whole.number("i8", 7 - bit)),
            whole.number("i8", 0),
        )
        for bit in range(4, 8)
    ]

    def found(first: int, level: int) -> str:
        """Looks up the bytes of 2^`level` parts, of which few are in registers at once."""
        if level:
            low, high = found(first, level - 1), found(first + (_PART << (level - 1)), level - 1)
            return whole.select(choices[level - 1], "i8", high, low)
        half = load(part, "i8", pointer, str(first))
        table = v.code.value(
            f"shufflevector {part.type('i8')} {half}, {part.type('i8')} poison, <{_SHORT_REGISTER} x i32> <{twice}>"
        )
        return v.code.value(f"call {kind} {name}({kind} {table}, {kind} {lower})")

    return found(0, len(choices))


def _found_in_quarters(v: Vector, pointer: str, at: str) -> str:
    """Looks up 16 bytes in one quarter of the table after another."""
    whole = Vector(v.code, v.target, _ARM_REGISTER)
    kind, found = whole.type("i8"), ""
    size = _ARM_REGISTER * _QUARTER
    for first in range(0, ENTRIES, size):
        table = [load(whole, "i8", pointer, str(first + _ARM_REGISTER * each)) for each in range(_QUARTER)]
        if first:
            at = whole.binary("sub", "i8", at, whole.number("i8", size))
        name = f"@llvm.aarch64.neon.{'tbx4' if found else 'tbl4'}.v16i8"
        given = [*([found] if found else []), *table, at]
        v.code.declarations.add(f"declare {kind} {name}({', '.join([kind] * len(given))})")
        found = v.code.value(f"call {kind} {name}({', '.join(f'{kind} {each}' for each in given)})")
    return found


def _permuted_words(words: Vector, table: Sequence[str], at: str) -> str:
    """Looks up bytes into the lower half of 16-bit words."""
    one = words.number("i16", 1)
    pair = words.binary("lshr", "i16", at, one)
    low, high = (_permuted(words, "i16", "hi", table[part], pair, table[part + 1]) for part in (0, 2))
    is_high = words.compare(
        "ne", "i16", words.binary("and", "i16", at, words.number("i16", 128)), words.number("i16", 0)
    )
    both = words.select(is_high, "i16", high, low)
    shift = words.binary("shl", "i16", words.binary("and", "i16", at, one), words.number("i16", 3))
    return words.binary("lshr", "i16", both, shift)


def _permuted(v: Vector, element: str, suffix: str, low: str, at: str, high: str) -> str:
    """Chooses elements of two registers by the lower bits of indices."""
    kind, name = v.type(element), f"@llvm.x86.avx512.vpermi2var.{suffix}.512"
    v.code.declarations.add(f"declare {kind} {name}({kind}, {kind}, {kind})")
    return v.code.value(f"call {kind} {name}({kind} {low}, {kind} {at}, {kind} {high})")
