"""LLVM IR of the kernels of the first tier, which read all sizes at run time.

A kernel is a function like that of a `neurald.drivers.cpu.target.routine.Routine`. Its last pointer,
`%words`, refers to 64-bit words: sizes, and other parameters. Windows are described by a table: for
each position of the output and each tap, the offset in elements of the input's first channel there,
or -1 outside of the image, where zeros are read.

Integers are multiplied as 16-bit values without their zero points, which is exact for all 8-bit
types, and needs no correction at borders.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math import vector_math
from neurald.drivers.cpu.emit.vector import Vector, literal
from neurald.drivers.cpu.emit.vector_memory import gather, masked_load, store
from neurald.drivers.cpu.first_tier.layout import BLOCK, FUNCTIONS, SCALES, tiles_of
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES, Scheme
from neurald.drivers.cpu.native.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

#: Vectors of channels that a depthwise kernel computes at a time.
_DEPTHWISE_VECTORS: Final = 4


def library_units(target: Target) -> list[Unit]:
    """Returns the units of all functions."""
    return [
        _product(_Kernel(target, "first_tiles_float"), is_float=True, is_panel=False),
        _product(_Kernel(target, "first_panels_float"), is_float=True, is_panel=True),
        _depthwise(_Kernel(target, "first_depthwise_float"), is_float=True),
        _product(_Kernel(target, "first_tiles_int"), is_float=False, is_panel=False),
        _product(_Kernel(target, "first_panels_int"), is_float=False, is_panel=True),
        _depthwise(_Kernel(target, "first_depthwise_int"), is_float=False),
        _widen(_Kernel(target, "first_widen_signed"), "sext"),
        _widen(_Kernel(target, "first_widen_unsigned"), "zext"),
        _lookup(_Kernel(target, "first_lookup")),
        _bytes(_Kernel(target, "first_byte_sum"), "add"),
        _bytes(_Kernel(target, "first_byte_product"), "mul"),
        _copy(_Kernel(target, "first_copy")),
        *(_move(_Kernel(target, f"first_move_{size}"), f"i{8 * size}") for size in (1, 2, 4, 8)),
        _maximum(_Kernel(target, "first_max_float"), "float", "llvm.maximum", "llvm.minimum"),
        _maximum(_Kernel(target, "first_max_signed"), "i8", "llvm.smax", "llvm.smin"),
        _maximum(_Kernel(target, "first_max_unsigned"), "i8", "llvm.umax", "llvm.umin"),
        _softmax(_Kernel(target, "first_softmax")),
        _mean(_Kernel(target, "first_mean")),
        *(_scatter(_Kernel(target, f"first_scatter_{size}"), f"i{8 * size}") for size in (1, 2, 4, 8)),
        *(_unary(_Kernel(target, name), function) for name, function in _FUNCTIONS.items()),
        *(_binary(_Kernel(target, name), function) for name, function in _OPERATIONS.items()),
    ]


class _Kernel:
    """The function that is being written.

    Args:
        target: the target of the code.
        name: of the function.
    """

    def __init__(self, target: Target, name: str) -> None:
        self.target, self.name = target, name
        self.tiles = tiles_of(target)
        self._pointers = [f"%{each}" for each in FUNCTIONS[name]]
        self.code = Instructions((*self._pointers, "%scratch", "%status", "%begin", "%end"))
        self.single = Vector(self.code, target, 1)

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

    def least(self, first: str, second: str) -> str:
        """Returns the smaller of two i64."""
        return self.single.call("llvm.smin", "i64", first, second)

    def loaded(self, kind: str, pointer: str, align: int) -> str:
        """Loads a value, where it is written."""
        return self.code.fresh(f"load {kind}, ptr {pointer}, align {align}")

    def mask(self, v: Vector, first: str, count: str) -> str:
        """Returns a mask of the lanes whose number from `first` on is below `count`."""
        left = self.single.binary("sub", "i64", count, first)
        left = self.least(self.single.call("llvm.smax", "i64", left, "0"), str(v.lanes))
        short = self.code.value(f"trunc i64 {left} to i32")
        return v.compare("slt", "i32", v.numbers("i32", range(v.lanes)), v.splat("i32", short))

    def source(self, position_taps: str, tap: str, element: str) -> str:
        """Returns the address of the first channel that a tap of a position reads.

        Args:
            position_taps: number of the position, times the number of taps.
            tap: number of the tap.
            element: the type of elements.
        """
        code = self.code
        at = code.value(f"getelementptr i32, ptr %table, i64 {self.sum(position_taps, tap)}")
        offset = code.value(f"sext i32 {self.loaded('i32', at, WORD_BYTES)} to i64")
        is_outside = code.value(f"icmp slt i64 {offset}, 0")
        inside = code.value(f"getelementptr {element}, ptr %input, i64 {offset}")
        return code.value(f"select i1 {is_outside}, ptr %zeros, ptr {inside}")

    def unit(self) -> Unit:
        """Returns the function as a unit to compile."""
        pointers = ", ".join(f"ptr noalias {each}" for each in self._pointers)
        rest = "ptr %scratch, ptr %status, i64 %begin, i64 %end"
        head = f"define void @{self.name}({pointers}, {rest}) nounwind {{"
        body = (*sorted(self.code.declarations), *self.code.globals, head, *self.code.lines)
        return Unit(name=self.name, text="\n".join((*body, "  ret void", "}", "")))


class _Epilogue:
    """Converts sums to outputs, and stores them in rows of channels.

    Args:
        kernel: the function.
        channels: number of channels.
        first: number of the first of its words: the limits of floats; of integers the zero point,
            the limits, and the number of channels that have parameters.
        is_float: True for floats.
    """

    def __init__(self, kernel: _Kernel, channels: str, first: int, *, is_float: bool) -> None:
        self._kernel, self._channels, self._is_float = kernel, channels, is_float
        if is_float:
            self._limits = [kernel.word(first + n, "float") for n in range(2)]
        else:
            self._limits = [kernel.word(first + n) for n in range(3)]
            self._padded = kernel.word(first + 3)

    def store(self, v: Vector, total: str, position: str, channel: str, *, is_whole: bool = False) -> None:
        """Stores a vector of sums.

        Args:
            v: of its width.
            total: the sums.
            position: number of the output's position.
            channel: number of the first channel. Channels beyond the last one are not stored.
            is_whole: True if all channels exist.
        """
        kernel = self._kernel
        at = kernel.sum(kernel.product(position, self._channels), channel)
        mask = None if is_whole else kernel.mask(v, channel, self._channels)
        if self._is_float:
            store(v, "float", clamped(v, total, *self._limits), "%out", at, mask)
        else:
            store(v, "i8", self._requantized(v, total, channel), "%out", at, mask)

    def _requantized(self, v: Vector, total: str, channel: str) -> str:
        kernel = self._kernel
        code = kernel.code
        at = code.value(f"getelementptr i32, ptr %bias, i64 {kernel.sum(self._padded, channel)}")
        mantissa = code.load(f"load {v.type('i32')}, ptr {at}, align {WORD_BYTES}")
        # Written beside the product, which is a shorter instruction for factors of 32 bits.
        mantissa = code.fresh(f"sext {v.type('i32')} {mantissa} to {v.type('i64')}")
        parameters = []
        for number in range(SCALES):
            at = kernel.sum(kernel.product(self._padded, str(number)), channel)
            pointer = code.value(f"getelementptr i64, ptr %scales, i64 {at}")
            parameters.append(code.load(f"load {v.type('i64')}, ptr {pointer}, align 8"))
        return _requantized(v, total, mantissa, parameters, self._limits)


def _requantized(
    v: Vector, total: str, mantissa: str, parameters: Sequence[str], limits: Sequence[str]
) -> str:
    """Returns 32-bit sums as bytes; see `neurald.hal.operations.arithmetic.fixed_point`.

    Args:
        v: of their width.
        total: the sums.
        mantissa: of the multipliers.
        parameters: what is added, what is added below zero, and the shift.
        limits: scalars: the zero point, the lower and the upper limit.
    """
    addend, below_zero, shift = parameters
    wide = v.binary("mul", "i64", v.cast("sext", "i32", total, "i64"), mantissa)
    is_below = v.binary("ashr", "i64", wide, v.number("i64", 63))
    wide = v.binary("add", "i64", wide, addend)
    wide = v.binary("add", "i64", wide, v.binary("and", "i64", is_below, below_zero))
    wide = v.binary("ashr", "i64", wide, shift)
    zero_point, low, high = (v.splat("i64", each) for each in limits)
    wide = v.binary("add", "i64", wide, zero_point)
    wide = v.call("llvm.smin", "i64", v.call("llvm.smax", "i64", wide, low), high)
    return v.cast("trunc", "i64", wide, "i8")


def clamped(v: Vector, value: str, low: str, high: str) -> str:
    """Clamps floats to two scalars; NaN stays NaN."""
    first, last = v.splat("float", low), v.splat("float", high)
    value = v.select(v.compare("olt", "float", value, first), "float", first, value)
    return v.select(v.compare("ogt", "float", value, last), "float", last, value)


def _product(kernel: _Kernel, *, is_float: bool, is_panel: bool) -> Unit:
    """Writes a convolution, or a fully connected layer.

    Words: positions, channels, taps, terms of a tap, panels, then those of the epilogue. A term is
    a float, or two integers of 16 bits. A work item is a tile of positions, or a panel of weights.
    """
    code, tiles, target = kernel.code, kernel.tiles, kernel.target
    v, scheme = Vector(code, target, tiles.lanes), Scheme(target=target, is_bytes=False)
    rows, vectors = (1, tiles.panel_vectors) if is_panel else (tiles.rows, tiles.vectors)
    term, element, align = ("float", "float", 4) if is_float else ("i32", "i16", 2)
    kind, width = v.type(term), vectors * tiles.lanes
    positions, channels, taps, terms, panels = (kernel.word(number) for number in range(5))
    epilogue = _Epilogue(kernel, channels, 5, is_float=is_float)
    last = kernel.single.binary("sub", "i64", positions, "1")
    term_bytes = width * WORD_BYTES
    starts_of_vectors = [str(n * target.vector_bytes) for n in range(vectors)]

    def add_terms(sums: list[str], sources: list[str], weights: str) -> list[str]:
        with code.loop("0", terms, [(kind, each) for each in sums]) as loop:
            panel = address(code, weights, multiple(code, loop.index, term_bytes))
            columns = [
                kernel.loaded(kind, address(code, panel, start), target.vector_bytes)
                for start in starts_of_vectors
            ]
            loop.results = list(loop.carried)
            for row, source in enumerate(sources):
                at = code.fresh(f"getelementptr {term}, ptr {source}, i64 {loop.index}")
                factor = v.splat(term, kernel.loaded(term, at, align))
                for n, column in enumerate(columns):
                    each = row * vectors + n
                    if is_float:
                        loop.results[each] = v.fma("float", factor, column, loop.results[each])
                    else:
                        loop.results[each] = scheme.step(code, loop.results[each], factor, column)
        return loop.results

    def write_tile(panel: str, first: str) -> None:
        channel = multiple(code, panel, width)
        bias = code.value(f"getelementptr {term}, ptr %bias, i64 {channel}")
        loaded = [
            kernel.loaded(kind, address(code, bias, start), target.vector_bytes)
            for start in starts_of_vectors
        ]
        numbers = [kernel.least(kernel.sum(first, str(row)), last) for row in range(rows)]
        begins = [kernel.product(each, taps) for each in numbers]
        carried = [(kind, loaded[each % vectors]) for each in range(rows * vectors)]
        before = kernel.product(kernel.product(panel, taps), terms)
        with code.loop("0", taps, carried) as loop:
            sources = [kernel.source(begin, loop.index, element) for begin in begins]
            done = kernel.sum(before, kernel.product(loop.index, terms))
            weights = address(code, "%weights", multiple(code, done, term_bytes))
            loop.results = add_terms(list(loop.carried), sources, weights)
        for each, total in enumerate(loop.results):
            row, n = divmod(each, vectors)
            epilogue.store(v, total, numbers[row], kernel.sum(channel, str(n * tiles.lanes)))

    if is_panel:
        with code.loop("%begin", "%end", may_be_empty=True) as panel, code.loop("0", positions) as position:
            write_tile(panel.index, position.index)
    else:
        with code.loop("0", panels) as panel, code.loop("%begin", "%end", may_be_empty=True) as tile:
            write_tile(panel.index, multiple(code, tile.index, rows))
    return kernel.unit()


def _depthwise(kernel: _Kernel, *, is_float: bool) -> Unit:
    """Writes a depthwise convolution, whose input and output have the same channels.

    Words: positions, channels, taps, channels that have weights, those of the epilogue. A work item
    is a position. Weights of integers have 32 bits.
    """
    code, target = kernel.code, kernel.target
    term, element, size = ("float", "float", 4) if is_float else ("i32", "i16", 2)
    _, channels, taps, padded = (kernel.word(number) for number in range(4))
    epilogue = _Epilogue(kernel, channels, 4, is_float=is_float)
    v = Vector(code, target, kernel.tiles.lanes)
    step = _DEPTHWISE_VECTORS * v.lanes

    def write(position: str, channel: str, vectors: int, *, is_whole: bool) -> None:
        places = [kernel.sum(channel, str(n * v.lanes)) for n in range(vectors)]
        carried = []
        for each in places:
            bias = code.value(f"getelementptr {term}, ptr %bias, i64 {each}")
            carried.append((v.type(term), kernel.loaded(v.type(term), bias, WORD_BYTES)))
        begin = kernel.product(position, taps)
        with code.loop("0", taps, carried) as loop:
            source = kernel.source(begin, loop.index, element)
            row = kernel.product(loop.index, padded)
            loop.results = []
            for total, each in zip(loop.carried, places, strict=True):
                at = code.value(f"getelementptr {term}, ptr %weights, i64 {kernel.sum(row, each)}")
                weights = kernel.loaded(v.type(term), at, WORD_BYTES)
                if is_whole:
                    at = code.value(f"getelementptr {element}, ptr {source}, i64 {each}")
                    values = kernel.loaded(v.type(element), at, size)
                else:
                    values = masked_load(v, element, source, each, kernel.mask(v, each, channels))
                if is_float:
                    loop.results.append(v.fma("float", values, weights, total))
                else:
                    long = v.cast("sext", "i16", values, "i32")
                    loop.results.append(v.binary("add", "i32", total, v.binary("mul", "i32", long, weights)))
        for total, each in zip(loop.results, places, strict=True):
            epilogue.store(v, total, position, each, is_whole=is_whole)

    whole = kernel.product(kernel.single.binary("sdiv", "i64", channels, str(step)), str(step))
    vectors = kernel.product(kernel.single.binary("sdiv", "i64", channels, str(v.lanes)), str(v.lanes))
    with code.loop("%begin", "%end", may_be_empty=True) as position:
        with code.loop("0", whole, step=step, may_be_empty=True) as channel:
            write(position.index, channel.index, _DEPTHWISE_VECTORS, is_whole=True)
        with code.loop(whole, vectors, step=v.lanes, may_be_empty=True) as channel:
            write(position.index, channel.index, 1, is_whole=True)
        with code.loop(vectors, channels, step=v.lanes, may_be_empty=True) as channel:
            write(position.index, channel.index, 1, is_whole=False)
    return kernel.unit()


def _maximum(kernel: _Kernel, element: str, larger: str, smaller: str) -> Unit:
    """Writes a maximum over windows. The zeros are the smallest values, which are never the result.

    Words: channels, taps, and the limits of the results. A work item is a position.
    """
    code = kernel.code
    channels, taps = kernel.word(0), kernel.word(1)
    low, high = kernel.word(2, element), kernel.word(3, element)
    size = 4 if element == "float" else 1
    with code.loop("%begin", "%end", may_be_empty=True) as position:
        begin = kernel.product(position.index, taps)
        row = kernel.product(position.index, channels)

        def write(v: Vector, index: str, begin: str = begin, row: str = row) -> None:
            kind = v.type(element)
            first = -math.inf if element == "float" else (-128 if larger == "llvm.smax" else 0)
            with code.loop("0", taps, [(kind, v.number(element, first))]) as loop:
                source = kernel.source(begin, loop.index, element)
                at = code.value(f"getelementptr {element}, ptr {source}, i64 {index}")
                loop.results = [v.call(larger, element, loop.carried[0], kernel.loaded(kind, at, size))]
            found = v.call(larger, element, loop.results[0], v.splat(element, low))
            found = v.call(smaller, element, found, v.splat(element, high))
            store(v, element, found, "%out", kernel.sum(row, index))

        _each_element(kernel, Vector(code, kernel.target, kernel.target.lanes(size)), "0", channels, write)
    return kernel.unit()


def _reduced(
    kernel: _Kernel, length: str, start: float, reduction: str, write: Callable[[Vector, str, str], str]
) -> str:
    """Writes a reduction of a row of floats, and returns its result.

    Args:
        kernel: the function.
        length: of the row.
        start: identity element.
        reduction: of a vector: `fadd` or `fmaximum`.
        write: writes the instructions for the elements from a number on, which combine them with the
            result before.
    """
    code, single = kernel.code, kernel.single
    v = Vector(code, kernel.target, kernel.tiles.lanes)
    whole = kernel.product(single.binary("sdiv", "i64", length, str(v.lanes)), str(v.lanes))
    kind = v.type("float")
    with code.loop("0", whole, [(kind, v.number("float", start))], step=v.lanes, may_be_empty=True) as loop:
        loop.results = [write(v, loop.index, loop.carried[0])]
    name = f"@llvm.vector.reduce.{reduction}.v{v.lanes}f32"
    first = "float, " if reduction == "fadd" else ""
    code.declarations.add(f"declare float {name}({first}{kind})")
    first = f"float {literal('float', 0)}, " if reduction == "fadd" else ""
    partial = code.fresh(f"call reassoc float {name}({first}{kind} {loop.results[0]})")
    with code.loop(whole, length, [("float", partial)], may_be_empty=True) as rest:
        rest.results = [write(single, rest.index, rest.carried[0])]
    return rest.results[0]


def _softmax(kernel: _Kernel) -> Unit:
    """Writes a softmax of rows of floats. Words: elements of a row, beta. A work item is a row."""
    code = kernel.code
    length, beta = kernel.word(0), kernel.word(1, "float")
    with code.loop("%begin", "%end", may_be_empty=True) as row:
        start = kernel.product(row.index, length)

        def given(v: Vector, pointer: str, index: str, start: str = start) -> str:
            at = code.value(f"getelementptr float, ptr {pointer}, i64 {kernel.sum(start, index)}")
            return kernel.loaded(v.type("float"), at, WORD_BYTES)

        def largest(v: Vector, index: str, before: str) -> str:
            return v.call("llvm.maximum", "float", before, given(v, "%input", index))

        highest = _reduced(kernel, length, -math.inf, "fmaximum", largest)

        def power(v: Vector, index: str, before: str, start: str = start) -> str:
            x = v.binary("fsub", "float", given(v, "%input", index), v.splat("float", highest))
            x = vector_math.exp(v, "float", v.binary("fmul", "float", x, v.splat("float", beta)))
            store(v, "float", x, "%out", kernel.sum(start, index))
            return v.binary("fadd", "float", before, x)

        total = _reduced(kernel, length, 0.0, "fadd", power)

        def divide(v: Vector, index: str, start: str = start) -> None:
            x = v.binary("fdiv", "float", given(v, "%out", index), v.splat("float", total))
            store(v, "float", x, "%out", kernel.sum(start, index))

        lanes = Vector(code, kernel.target, kernel.tiles.lanes)
        _each_element(kernel, lanes, "0", length, divide)
    return kernel.unit()


def _mean(kernel: _Kernel) -> Unit:
    """Writes a mean of rows of floats. Words: elements of a row. A work item is a row."""
    code = kernel.code
    length = kernel.word(0)
    count = code.value(f"sitofp i64 {length} to float")
    with code.loop("%begin", "%end", may_be_empty=True) as row:
        start = kernel.product(row.index, length)

        def add(v: Vector, index: str, before: str, start: str = start) -> str:
            at = code.value(f"getelementptr float, ptr %input, i64 {kernel.sum(start, index)}")
            return v.binary("fadd", "float", before, kernel.loaded(v.type("float"), at, WORD_BYTES))

        total = _reduced(kernel, length, 0.0, "fadd", add)
        mean = kernel.single.binary("fdiv", "float", total, count)
        store(kernel.single, "float", mean, "%out", row.index)
    return kernel.unit()


def _widen(kernel: _Kernel, extension: str) -> Unit:
    """Writes a conversion of bytes to 16-bit values without their zero point.

    Words: elements, elements of a row of the input and of the output, the zero point. A work item is
    a row; elements that only rows of the output have are not written.
    """
    code = kernel.code
    elements, length, padded = (kernel.word(number) for number in range(3))
    zero_point = code.value(f"trunc i64 {kernel.word(3)} to i16")
    wide = Vector(code, kernel.target, kernel.target.lanes(2))
    with code.loop("%begin", "%end", may_be_empty=True) as row:
        first = kernel.product(row.index, length)
        target = kernel.product(row.index, padded)
        count = kernel.least(length, kernel.single.binary("sub", "i64", elements, first))

        def write(v: Vector, index: str, first: str = first, target: str = target) -> None:
            at = code.value(f"getelementptr i8, ptr %input, i64 {kernel.sum(first, index)}")
            value = v.cast(extension, "i8", kernel.loaded(v.type("i8"), at, 1), "i16")
            value = v.binary("sub", "i16", value, v.splat("i16", zero_point))
            store(v, "i16", value, "%out", kernel.sum(target, index))

        _each_element(kernel, wide, "0", count, write)
    return kernel.unit()


def _lookup(kernel: _Kernel) -> Unit:
    """Writes a function of bytes, given by its 256 results.

    Words: elements. A work item is a block of them.
    """
    code = kernel.code
    first, last = _blocks(kernel)
    with code.loop(first, last, may_be_empty=True) as loop:
        at = code.value(f"getelementptr i8, ptr %input, i64 {loop.index}")
        index = code.value(f"zext i8 {kernel.loaded('i8', at, 1)} to i64")
        entry = code.value(f"getelementptr i8, ptr %lookup, i64 {index}")
        store(kernel.single, "i8", kernel.loaded("i8", entry, 1), "%out", loop.index)
    return kernel.unit()


def _bytes(kernel: _Kernel, operation: str) -> Unit:
    """Writes an operation on two integers, which tables give for bytes.

    Words: elements, then the mantissa, the other parameters of requantisation, the zero point and the
    limits. A work item is a block of elements.
    """
    code = kernel.code
    mantissa, *parameters = (kernel.word(number) for number in range(1, 2 + SCALES))
    limits = [kernel.word(number) for number in range(2 + SCALES, 5 + SCALES)]

    def write(v: Vector, index: str) -> None:
        factors = []
        for name, table in (("%input", "%first"), ("%other", "%second")):
            at = code.value(f"getelementptr i8, ptr {name}, i64 {index}")
            byte = v.cast("zext", "i8", kernel.loaded(v.type("i8"), at, 1), "i32")
            factors.append(gather(v, "i32", table, "i32", byte))
        total = v.binary(operation, "i32", *factors)
        splats = [v.splat("i64", each) for each in parameters]
        result = _requantized(v, total, v.splat("i64", mantissa), splats, limits)
        store(v, "i8", result, "%out", index)

    _each_element(kernel, Vector(code, kernel.target, kernel.tiles.lanes), *_blocks(kernel), write)
    return kernel.unit()


def _copy(kernel: _Kernel) -> Unit:
    """Writes a copy. Words: bytes. A work item is a block of them."""
    code = kernel.code

    def write(v: Vector, index: str) -> None:
        at = code.value(f"getelementptr i8, ptr %input, i64 {index}")
        store(v, "i8", kernel.loaded(v.type("i8"), at, 1), "%out", index)

    _each_element(kernel, Vector(code, kernel.target, kernel.target.lanes(1)), *_blocks(kernel), write)
    return kernel.unit()


def _move(kernel: _Kernel, element: str) -> Unit:
    """Writes a movement of runs of elements.

    The table has two numbers for each run: the first elements of the output and of the input. Words:
    elements of a run. A work item is a run.
    """
    code = kernel.code
    length, size = kernel.word(0), int(element[1:]) // 8
    with code.loop("%begin", "%end", may_be_empty=True) as run:
        starts = []
        for number in range(2):
            at = kernel.sum(multiple(code, run.index, 2), str(number))
            at = code.value(f"getelementptr i32, ptr %table, i64 {at}")
            starts.append(code.value(f"zext i32 {kernel.loaded('i32', at, WORD_BYTES)} to i64"))
        target, source = starts

        def write(v: Vector, index: str, target: str = target, source: str = source) -> None:
            at = code.value(f"getelementptr {element}, ptr %input, i64 {kernel.sum(source, index)}")
            value = kernel.loaded(v.type(element), at, size)
            store(v, element, value, "%out", kernel.sum(target, index))

        _each_element(kernel, Vector(code, kernel.target, kernel.target.lanes(size)), "0", length, write)
    return kernel.unit()


def _scatter(kernel: _Kernel, element: str) -> Unit:
    """Writes a movement of single elements; see `_move`. Words: elements. A work item is a block."""
    code = kernel.code
    first, last = _blocks(kernel)
    with code.loop(first, last, may_be_empty=True) as loop:
        pair = code.value(f"getelementptr i64, ptr %table, i64 {loop.index}")
        numbers = kernel.loaded("i64", pair, WORD_BYTES)
        target = code.value(f"and i64 {numbers}, {(1 << 32) - 1}")
        source = code.value(f"lshr i64 {numbers}, 32")
        at = code.value(f"getelementptr {element}, ptr %input, i64 {source}")
        value = kernel.loaded(element, at, int(element[1:]) // 8)
        store(kernel.single, element, value, "%out", target)
    return kernel.unit()


def _unary(kernel: _Kernel, function: Callable[[Vector, str], str]) -> Unit:
    """Writes a function of floats. Words, and work items: see `_binary`."""
    code = kernel.code
    low, high = kernel.word(1, "float"), kernel.word(2, "float")

    def write(v: Vector, index: str) -> None:
        at = code.value(f"getelementptr float, ptr %input, i64 {index}")
        result = function(v, kernel.loaded(v.type("float"), at, WORD_BYTES))
        store(v, "float", clamped(v, result, low, high), "%out", index)

    _each_element(kernel, Vector(code, kernel.target, kernel.tiles.lanes), *_blocks(kernel), write)
    return kernel.unit()


def _hard_swish(v: Vector, x: str) -> str:
    """Returns x × clamp(x + 3, 0, 6) / 6."""
    shifted = v.binary("fadd", "float", x, v.number("float", 3))
    shifted = clamped(v, shifted, literal("float", 0), literal("float", 6))
    return v.binary("fdiv", "float", v.binary("fmul", "float", x, shifted), v.number("float", 6))


def _squared_difference(v: Vector, first: str, second: str) -> str:
    difference = v.binary("fsub", "float", first, second)
    return v.binary("fmul", "float", difference, difference)


def _prelu(v: Vector, x: str, slope: str) -> str:
    is_below = v.compare("olt", "float", x, v.number("float", 0))
    return v.select(is_below, "float", v.binary("fmul", "float", x, slope), x)


#: Functions of floats, by the name of the kernel.
_FUNCTIONS: Final[Mapping[str, Callable[[Vector, str], str]]] = {
    "first_clamp": lambda v, x: x,
    "first_exp": lambda v, x: vector_math.exp(v, "float", x),
    "first_hard_swish": _hard_swish,
    "first_logistic": lambda v, x: vector_math.logistic(v, "float", x),
    "first_rsqrt": lambda v, x: vector_math.rsqrt(v, "float", x),
    "first_tanh": lambda v, x: vector_math.tanh(v, "float", x),
}
#: Operations on two floats, by the name of the kernel.
_OPERATIONS: Final[Mapping[str, Callable[[Vector, str, str], str]]] = {
    "first_add": lambda v, x, y: v.binary("fadd", "float", x, y),
    "first_subtract": lambda v, x, y: v.binary("fsub", "float", x, y),
    "first_multiply": lambda v, x, y: v.binary("fmul", "float", x, y),
    "first_divide": lambda v, x, y: v.binary("fdiv", "float", x, y),
    "first_squared_difference": _squared_difference,
    "first_prelu": _prelu,
}


def _binary(kernel: _Kernel, operation: Callable[[Vector, str, str], str]) -> Unit:
    """Writes an operation on two floats, for operands of equal shapes.

    Words: elements, and the limits of the results. A work item is a block of elements.
    """
    code = kernel.code
    low, high = kernel.word(1, "float"), kernel.word(2, "float")

    def write(v: Vector, index: str) -> None:
        kind = v.type("float")
        operands = []
        for name in ("%input", "%other"):
            at = code.value(f"getelementptr float, ptr {name}, i64 {index}")
            operands.append(kernel.loaded(kind, at, WORD_BYTES))
        store(v, "float", clamped(v, operation(v, *operands), low, high), "%out", index)

    _each_element(kernel, Vector(code, kernel.target, kernel.tiles.lanes), *_blocks(kernel), write)
    return kernel.unit()


def _blocks(kernel: _Kernel) -> tuple[str, str]:
    """Returns the range of elements of the work items, which are blocks of them."""
    code = kernel.code
    return multiple(code, "%begin", BLOCK), kernel.least(multiple(code, "%end", BLOCK), kernel.word(0))


def _each_element(
    kernel: _Kernel, v: Vector, first: str, last: str, write: Callable[[Vector, str], None]
) -> None:
    """Writes loops over elements: over vectors, and over what is left.

    Args:
        kernel: the function.
        v: of the width of the vectors.
        first, last: the range.
        write: writes the instructions for the elements from a number on.
    """
    code, single = kernel.code, kernel.single
    count = single.call("llvm.smax", "i64", single.binary("sub", "i64", last, first), "0")
    whole = kernel.product(single.binary("sdiv", "i64", count, str(v.lanes)), str(v.lanes))
    middle = kernel.sum(first, whole)
    with code.loop(first, middle, step=v.lanes, may_be_empty=True) as loop:
        write(v, loop.index)
    with code.loop(middle, last, may_be_empty=True) as loop:
        write(single, loop.index)
