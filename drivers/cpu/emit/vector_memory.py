"""Loads and stores of vectors: contiguous, masked, and gathered.

Offsets are names or numbers, in elements. Masks are names or literals with one i1 per lane.
"""

import re
from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.extents.extent import is_always_at_least
from neurald.drivers.cpu.emit.vector import SUFFIXES, Vector

#: Size of the smallest elements with gather instructions, in bytes.
_WORD_BYTES = 4
#: Size of the smallest vectors for which gathering words is faster than loading short elements one
#: by one, in bytes.
_MIN_GATHER_BYTES = 64
_CACHE_LINE_BYTES = 64
_SIZES = {"float": 4, "double": 8}


def _size_bytes(element: str) -> int:
    return _SIZES.get(element) or int(element[1:]) // 8


def _suffix(v: Vector, element: str) -> str:
    return f"v{v.lanes}{SUFFIXES.get(element, element)}"


def _address(v: Vector, element: str, pointer: str, offset: str) -> str:
    if offset == "0":
        return pointer
    return v.code.value(f"getelementptr {element}, ptr {pointer}, i64 {offset}")


def load(v: Vector, element: str, pointer: str, offset: str) -> str:
    """Loads consecutive elements, one per lane."""
    address = _address(v, element, pointer, offset)
    return v.code.load(f"load {v.type(element)}, ptr {address}, align {_size_bytes(element)}")


def prefetch(v: Vector, element: str, pointer: str, start: str, distance_bytes: int) -> None:
    """Prefetches memory at a distance from loaded elements; it need not be valid."""
    v.code.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    address = _address(v, element, pointer, start)
    for offset in range(0, v.lanes * _size_bytes(element), _CACHE_LINE_BYTES):
        ahead = v.code.value(f"getelementptr i8, ptr {address}, i64 {distance_bytes + offset}")
        v.code.effect(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")


def masked_load(v: Vector, element: str, pointer: str, offset: str, mask: str) -> str:
    """Loads consecutive elements in the lanes of a mask; other lanes are 0."""
    whole, masks = v.type(element), v.type("i1")
    name = f"@llvm.masked.load.{_suffix(v, element)}.p0"
    v.code.declarations.add(f"declare {whole} {name}(ptr, i32, {masks}, {whole})")
    address = _address(v, element, pointer, offset)
    align = _size_bytes(element)
    return v.code.load(
        f"call {whole} {name}(ptr {address}, i32 {align}, {masks} {mask}, {whole} zeroinitializer)"
    )


def permuted_load(
    v: Vector,
    element: str,
    pointer: str,
    base: str,
    length: int,
    starts: Sequence[int],
    at: Sequence[int | None],
) -> str:
    """Loads elements from several contiguous vectors and arranges them in lanes.

    Args:
        v: receives the instructions; has more than one lane.
        element: the type of the elements.
        pointer: base address.
        base: offset in elements to which all others are relative.
        length: number of elements of each contiguous vector, a power of two.
        starts: offsets at which they start, in ascending order.
        at: the offset of each lane's element; None for lanes without one, which are undefined.
    """
    single, whole = Vector(v.code, v.target, 1), Vector(v.code, v.target, length)
    loaded = [
        load(whole, element, pointer, single.binary("add", "i64", base, str(start))) for start in starts
    ]
    return arranged(v, element, loaded, length, starts, at)


def arranged(
    v: Vector,
    element: str,
    vectors: Sequence[str],
    length: int,
    starts: Sequence[int],
    at: Sequence[int | None],
) -> str:
    """Arranges the elements of contiguous vectors in lanes; see `permuted_load`."""
    loaded = list(vectors)
    if length == 1:
        return v.splat(element, loaded[0])
    #: The vector of each lane's element, and its position there.
    found = np.searchsorted(starts, [starts[0] if each is None else each for each in at], side="right") - 1
    places = [
        None if each is None else (int(vector), each - starts[vector])
        for each, vector in zip(at, found, strict=True)
    ]
    while True:
        pairs = []
        for first in range(0, len(loaded), 2):
            one, other = loaded[first], loaded[min(first + 1, len(loaded) - 1)]
            lanes = [
                position + (vector - first) * length if place and first <= vector < first + 2 else None
                for place in places
                for vector, position in (place or (0, 0),)
            ]
            pairs.append(_shuffled(v, element, (one, other), length, lanes))
        if len(pairs) == 1:
            return pairs[0]
        loaded, length = pairs, v.lanes
        places = [place and (place[0] // 2, lane) for lane, place in enumerate(places)]


def _shuffled(
    v: Vector, element: str, vectors: tuple[str, str], length: int, lanes: Sequence[int | None]
) -> str:
    """Arranges the elements of two vectors in lanes, by their positions in both; None is any."""
    if length == v.lanes and all(each in (None, lane) for lane, each in enumerate(lanes)):
        return vectors[0]
    kind = f"<{length} x {element}>"
    chosen = ", ".join(f"i32 {'poison' if each is None else each}" for each in lanes)
    return v.code.value(
        f"shufflevector {kind} {vectors[0]}, {kind} {vectors[1]}, <{v.lanes} x i32> <{chosen}>"
    )


def store(v: Vector, element: str, value: str, pointer: str, offset: str, mask: str | None = None) -> None:
    """Stores consecutive elements, only in the lanes of a mask if there is one."""
    whole, masks = v.type(element), v.type("i1")
    address, align = _address(v, element, pointer, offset), _size_bytes(element)
    known = [lane in ("true", "1") for lane in re.findall(r"i1 (\w+)", mask)] if mask else []
    if known.count(True) == 1:
        # LLVM 22 merges this into a wide store if the value was truncated right before.
        lane = known.index(True)
        single = v.code.value(f"extractelement {whole} {value}, i64 {lane}")
        address = v.code.value(f"getelementptr {element}, ptr {address}, i64 {lane}")
        v.code.effect(f"store {element} {single}, ptr {address}, align {align}")
        return
    if mask is None:
        v.code.effect(f"store {whole} {value}, ptr {address}, align {align}")
        return
    name = f"@llvm.masked.store.{_suffix(v, element)}.p0"
    v.code.declarations.add(f"declare void {name}({whole}, ptr, i32, {masks})")
    v.code.effect(f"call void {name}({whole} {value}, ptr {address}, i32 {align}, {masks} {mask})")


def gather(v: Vector, element: str, pointer: str, width: str, offsets: str, mask: str | None = None) -> str:
    """Gathers elements.

    Args:
        v: receives the instructions.
        element: the type of the elements.
        pointer: base address.
        width: i32 or i64, the type of the offsets.
        offsets: offsets of the elements, one per lane.
        mask: lanes to load, all by default; others are 0.
    """
    return _gathered(v, element, element, pointer, (width, offsets), mask)


def _gathered(
    v: Vector, element: str, unit: str, pointer: str, offsets: tuple[str, str], mask: str | None
) -> str:
    """Gathers elements by offsets in units of type `unit`."""
    width, texts = offsets
    align = _size_bytes(unit)
    addresses = v.code.value(f"getelementptr {unit}, ptr {pointer}, {v.type(width)} {texts}")
    if v.lanes == 1:
        return v.code.load(f"load {element}, ptr {addresses}, align {align}")
    name = f"@llvm.masked.gather.{_suffix(v, element)}.v{v.lanes}p0"
    whole, masks, pointers = v.type(element), v.type("i1"), v.type("ptr")
    v.code.declarations.add(f"declare {whole} {name}({pointers}, i32, {masks}, {whole})")
    kept = v.number("i1", 1) if mask is None else mask
    return v.code.load(
        f"call {whole} {name}({pointers} {addresses}, i32 {align}, {masks} {kept}, {whole} zeroinitializer)"
    )


def has_word_gather(v: Vector, element: str, size_bytes: int) -> bool:
    """Returns True if `gather_from_words` is possible and worthwhile for memory of this size."""
    is_short = _size_bytes(element) < _WORD_BYTES and is_always_at_least(size_bytes, _WORD_BYTES)
    return is_short and size_bytes < 2**31 and v.target.vector_bytes >= _MIN_GATHER_BYTES


def gather_from_words(
    v: Vector, element: str, pointer: str, offsets: str, size_bytes: int, mask: str | None
) -> str:
    """Gathers elements of fewer than four bytes from 32-bit words.

    The words begin with the element, or end with the memory.

    Args:
        v: receives the instructions.
        element: i8 or i16.
        pointer: base address.
        offsets: offsets of the elements, i32.
        size_bytes: size of the memory in bytes.
        mask: lanes to load; all by default.
    """
    scale = _size_bytes(element).bit_length() - 1
    offset = v.binary("shl", "i32", offsets, v.number("i32", scale)) if scale else offsets
    first = v.call("llvm.smin", "i32", offset, v.number("i32", size_bytes - _WORD_BYTES))
    word = _gathered(v, "i32", "i8", pointer, ("i32", first), mask)
    shift = v.binary("shl", "i32", v.binary("sub", "i32", offset, first), v.number("i32", 3))
    # Lanes that are not loaded may have any offset.
    shift = v.binary("and", "i32", shift, v.number("i32", 31))
    return v.cast("trunc", "i32", v.binary("lshr", "i32", word, shift), element)
