"""Writes the functions of the first tier: their pointers, words, masks, and loops over elements."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.first_tier.layout import BLOCK, tiles_of
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

#: Vectors of fewer lanes are not written beside wider ones.
_MIN_LANES: Final = 8


class KernelWriter:
    """The function that is being written.

    Args:
        target: the target of the code.
        name: the name of the function.
        pointers: the names of its pointers apart from the words; the output first.
    """

    def __init__(self, target: Target, name: str, pointers: Sequence[str]) -> None:
        self.target, self.name = target, name
        self.tiles = tiles_of(target)
        self.pointers = [f"%{each}" for each in (*pointers, "words")]
        self.code = Instructions((*self.pointers, "%scratch", "%status", "%begin", "%end"))
        self.single = Vector(self.code, target, 1)
        self.vector = Vector(self.code, target, self.tiles.lanes)

    def word(self, number: int, kind: str = "i64") -> str:
        """Returns a word, or its first bytes as another type."""
        at = self.code.value(f"getelementptr i64, ptr %words, i64 {number}")
        return self.code.load(f"load {kind}, ptr {at}, align 8")

    def product(self, first: str, second: str) -> str:
        """Multiplies two i64."""
        return self.single.binary("mul", "i64", first, second)

    def sum(self, first: str, second: str) -> str:
        """Adds two i64."""
        return self.single.binary("add", "i64", first, second)

    def difference(self, first: str, second: str) -> str:
        """Subtracts two i64."""
        return self.single.binary("sub", "i64", first, second)

    def split(self, number: str, divisor: str) -> tuple[str, str]:
        """Divides two i64 that are not negative; returns quotient and remainder."""
        quotient = self.single.binary("udiv", "i64", number, divisor)
        return quotient, self.difference(number, self.product(quotient, divisor))

    def least(self, first: str, second: str) -> str:
        """Returns the smaller of two i64."""
        return self.single.call("llvm.smin", "i64", first, second)

    def at(self, element: str, pointer: str, offset: str) -> str:
        """Returns the address of an element."""
        return self.code.value(f"getelementptr {element}, ptr {pointer}, i64 {offset}")

    def loaded(self, kind: str, pointer: str, align: int) -> str:
        """Loads a value, where it is written."""
        return self.code.fresh(f"load {kind}, ptr {pointer}, align {align}")

    def element(self, v: Vector, element: str, pointer: str, offset: str) -> str:
        """Loads consecutive elements, where it is written."""
        return self.loaded(v.type(element), self.at(element, pointer, offset), size_bytes(element))

    def mask(self, v: Vector, first: str, count: str) -> str:
        """Returns a mask of the lanes whose number from `first` on is below `count`."""
        left = self.difference(count, first)
        left = self.least(self.single.call("llvm.smax", "i64", left, "0"), str(v.lanes))
        short = self.code.value(f"trunc i64 {left} to i32")
        return v.compare("slt", "i32", v.numbers("i32", range(v.lanes)), v.splat("i32", short))

    def source(self, position_taps: str, tap: str, element: str, pointer: str = "%input") -> str:
        """Returns the address of the first channel that a tap of a position reads.

        Args:
            position_taps: number of the position, times the number of taps.
            tap: number of the tap.
            element: the type of elements.
            pointer: the image.
        """
        code = self.code
        at = self.at("i32", "%table", self.sum(position_taps, tap))
        offset = code.value(f"sext i32 {self.loaded('i32', at, WORD_BYTES)} to i64")
        is_outside = code.value(f"icmp slt i64 {offset}, 0")
        return code.value(f"select i1 {is_outside}, ptr %zeros, ptr {self.at(element, pointer, offset)}")

    @contextmanager
    def each_item(self) -> Iterator[str]:
        """Writes the loop over the work items."""
        with self.code.loop("%begin", "%end", may_be_empty=True) as item:
            yield item.index

    def blocks(self) -> tuple[str, str]:
        """Returns the range of elements of the work items, blocks of `word(0)` elements."""
        code = self.code
        return multiple(code, "%begin", BLOCK), self.least(multiple(code, "%end", BLOCK), self.word(0))

    def each_element(self, v: Vector, first: str, last: str, write: Callable[[Vector, str], None]) -> None:
        """Writes loops over elements: over vectors, shorter ones, and the remaining elements.

        Args:
            v: writes vectors of that width.
            first, last: the range.
            write: writes the instructions for the elements from a number on.
        """
        code, single = self.code, self.single
        while v.lanes > 1:
            count = single.call("llvm.smax", "i64", self.difference(last, first), "0")
            whole = self.product(single.binary("sdiv", "i64", count, str(v.lanes)), str(v.lanes))
            middle = self.sum(first, whole)
            with code.loop(first, middle, step=v.lanes, may_be_empty=True) as loop:
                write(v, loop.index)
            first = middle
            # Many rows of small elements are shorter than the widest vector.
            v = Vector(code, self.target, v.lanes // 2) if v.lanes > _MIN_LANES else single
        with code.loop(first, last, may_be_empty=True) as loop:
            write(single, loop.index)

    def unit(self) -> Unit:
        """Returns the function as a unit to compile."""
        pointers = ", ".join(f"ptr noalias {each}" for each in self.pointers)
        rest = "ptr %scratch, ptr %status, i64 %begin, i64 %end"
        head = f"define void @{self.name}({pointers}, {rest}) nounwind {{"
        body = (*sorted(self.code.declarations), *self.code.globals, head, *self.code.lines)
        return Unit(name=self.name, text="\n".join((*body, "  ret void", "}", "")))


def size_bytes(element: str) -> int:
    """Returns the size of an element of an LLVM type."""
    return {"float": 4, "double": 8}.get(element) or max(1, int(element[1:]) // 8)


def clamped(v: Vector, value: str, low: str, high: str) -> str:
    """Clamps floats to two scalars; NaN stays NaN."""
    first, last = v.splat("float", low), v.splat("float", high)
    value = v.select(v.compare("olt", "float", value, first), "float", first, value)
    return v.select(v.compare("ogt", "float", value, last), "float", last, value)
