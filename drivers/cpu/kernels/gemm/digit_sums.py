"""Products of one row of FLOAT32 inputs and INT8 weights as sums of products of bytes.

Reading a weight as a float takes more instructions than multiplying it. So the inputs are converted
instead, once for all channels: to integers of 30 bits and a sign with a common power of two as
their scale, and these to four signed digits to the base of 256. Instructions multiply four digits
by four weights. A digit's products are added up exactly, and the sums of the digits become floats
at the end. An input thus changes by at most 2^-29 of the row's largest one, where rounding a
product of it changes up to 2^-24 of the product. So inputs far below the largest one lose digits,
and those below 2^-29 of it are 0, even for channels whose weight of the largest one is 0. If all
inputs are below 2^-97, they change by up to 2^-126 instead.

Rows with infinities or NaN are multiplied as floats.
"""

from collections.abc import Sequence
from itertools import pairwise

from neurald.drivers.compiler.ir.extents.extent import has_extents, is_one
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.tile import Tile
from neurald.drivers.cpu.kernels.gemm.micro_kernel import TileShape, WeightLayout
from neurald.drivers.cpu.kernels.gemm.operand_packing import OutputRange, SourceCopy
from neurald.drivers.cpu.target.target import Target

_FLOAT_BYTES = Scalar.FLOAT32.size_bytes
#: Lanes of a register, and its size.
_LANES, _REGISTER_BYTES = 16, 64
#: Digits of an input, and terms of which an instruction multiplies a digit.
_DIGITS, _GROUP = 4, 4
#: The three lower digits with a bias of 128 each, which makes them unsigned.
_BIAS = 0x00808080
#: The bias of unsigned weights.
_WEIGHT_BIAS = 128
#: Bits of a float: all but the sign, and the exponent.
_MAGNITUDE, _EXPONENT, _EXPONENT_AT = 0x7FFFFFFF, 0x7F800000, 23
#: The biased exponent of infinity and NaN; the sum of those of the largest input and of its factor,
#: with which it is at least 2^29 and less than 2^30; and the least one, so that both the factor and
#: its inverse are normal numbers.
_SPECIAL, _EXPONENTS, _LEAST_EXPONENT = 0xFF, 283, 30
#: Number of terms up to which sums of digits are below 2^31.
_MAX_TERMS = 1 << 16
#: Fewest channels for which converting the inputs takes little of the time.
_MIN_CHANNELS = 4 * _LANES
#: Maximum number of vectors whose sums of each digit are in registers.
_MAX_VECTORS = 6
#: Places before the digits: what the sums of the digits begin with, the inverse factor, and the
#: number of terms that are multiplied as floats.
_INVERSE_AT, _TERMS_AT, _DIGITS_AT = 16, 24, 64


def has_digits(product: WindowedProduct, tile: Tile, stored: Scalar, target: Target) -> bool:
    """Returns True if a product is computed by digits.

    Args:
        product: the product.
        tile: size of tiles.
        stored: the type of the packed weights; UINT8 if they are INT8 with scales.
        target: the target of the code.
    """
    if stored is not Scalar.UINT8 or product.type is not Scalar.FLOAT32:
        return False
    if not target.has_mixed_dots or target.vector_bytes != _REGISTER_BYTES or tile.lanes != _LANES:
        return False
    lengths = product.channels, product.terms, product.positions
    if has_extents((*lengths, *(each.extent for each in product.batches))):
        return False
    return (
        product.positions == 1
        and all(is_one(each.extent) for each in product.batches)
        and product.terms == product.depth <= _MAX_TERMS
        and product.terms % _LANES == 0
        and product.element_bytes == _FLOAT_BYTES
        and product.channels >= _MIN_CHANNELS
    )


class DigitCopy(SourceCopy):
    """Converts the inputs of the only position to digits.

    Of each `_GROUP` inputs, the first digits of all precede the second ones, and so on.

    Args:
        target, given, source, memory: see `SourceCopy`.
    """

    is_whole = True

    def __init__(self, target: Target, given: WindowedProduct, source: str, memory: str) -> None:
        super().__init__(target, given, source, memory)
        self.size_bytes = _DIGITS_AT + given.terms * _DIGITS
        self.product = given

    @property
    def source(self) -> str:
        """Address of the inputs."""
        return self._source

    @property
    def memory(self) -> str:
        """Address of what is written."""
        return self._memory

    def write(
        self, code: Instructions, at: tuple[Sequence[str], str], positions: OutputRange, continues: str
    ) -> None:
        """See `SourceCopy.write`. There is one position."""
        del at, positions, continues
        self.write_all(code)

    def write_all(self, code: Instructions) -> None:
        """See `SourceCopy.write_all`."""
        v, single = Vector(code, self._target, _LANES), Vector(code, self._target, 1)
        exponent = self._largest_exponent(code)
        is_special = code.fresh(f"icmp eq i32 {exponent}, {_SPECIAL << _EXPONENT_AT}")
        exponent = single.call("llvm.umax", "i32", exponent, str(_LEAST_EXPONENT << _EXPONENT_AT))
        bits = code.fresh(f"sub i32 {(_EXPONENTS << _EXPONENT_AT) - (1 << 32)}, {exponent}")
        factor = v.splat("float", single.bitcast("i32", bits, "float"))
        inverse = code.fresh(f"sub i32 {exponent}, {(_EXPONENTS - 2 * 127) << _EXPONENT_AT}")
        terms = self._given.terms
        with code.loop("0", str(terms), [(v.type("i32"), v.number("i32", 0))], step=_LANES) as loop:
            at = address(code, self._source, multiple(code, loop.index, _FLOAT_BYTES))
            x = code.fresh(f"load {v.type('float')}, ptr {at}, align {_FLOAT_BYTES}")
            whole = v.cast("fptosi", "float", v.binary("fmul", "float", x, factor), "i32")
            biased = v.binary("add", "i32", whole, v.number("i32", _BIAS))
            digits = _grouped(v, v.binary("xor", "i32", biased, v.number("i32", _BIAS)))
            to = address(code, self._memory, str(_DIGITS_AT), multiple(code, loop.index, _DIGITS))
            code.effect(f"store <{_REGISTER_BYTES} x i8> {digits}, ptr {to}, align 4")
            loop.results = [_dot(v, loop.carried[0], "splat (i8 1)", digits)]
        lanes = v.parts("i32", loop.results[0], _DIGITS)
        few = Vector(code, self._target, _DIGITS)
        found = lanes[0]
        for each in lanes[1:]:
            found = few.binary("add", "i32", found, each)
        found = few.binary("mul", "i32", found, few.number("i32", -_WEIGHT_BIAS))
        code.effect(f"store {few.type('i32')} {found}, ptr {self._memory}, align 4")
        at = address(code, self._memory, str(_INVERSE_AT))
        code.effect(f"store i32 {inverse}, ptr {at}, align 4")
        at = address(code, self._memory, str(_TERMS_AT))
        count = code.fresh(f"select i1 {is_special}, i64 {terms}, i64 0")
        code.effect(f"store i64 {count}, ptr {at}, align 8")

    def _largest_exponent(self, code: Instructions) -> str:
        """Returns the exponent of the largest input, where a float has it."""
        v = Vector(code, self._target, _LANES)
        kind = v.type("i32")
        with code.loop("0", str(self._given.terms), [(kind, v.number("i32", 0))], step=_LANES) as loop:
            at = address(code, self._source, multiple(code, loop.index, _FLOAT_BYTES))
            bits = code.fresh(f"load {kind}, ptr {at}, align {_FLOAT_BYTES}")
            magnitude = v.binary("and", "i32", bits, v.number("i32", _MAGNITUDE))
            loop.results = [v.call("llvm.umax", "i32", loop.carried[0], magnitude)]
        name = f"@llvm.vector.reduce.umax.v{_LANES}i32"
        code.declarations.add(f"declare i32 {name}({kind})")
        largest = code.fresh(f"call i32 {name}({kind} {loop.results[0]})")
        return code.fresh(f"and i32 {largest}, {_EXPONENT}")


class DigitSums:
    """Writes the sums of products by digits. It is used like a `FloatMicroKernel`.

    Args:
        code: receives the instructions.
        target: the target of the code.
        tile: size of tiles, of one position.
        weights: how they are read; see `packing.packed_groups`.
        copy: the digits.
    """

    def __init__(
        self, code: Instructions, target: Target, tile: Tile, weights: WeightLayout, copy: DigitCopy
    ) -> None:
        self._code, self._tile, self._weights, self._copy = code, tile, weights, copy
        self._vector = Vector(code, target, _LANES)

    def prefetch_address(self, weights: str, tile: str) -> str:
        """See `FloatMicroKernel.prefetch_address`. Nothing is prefetched."""
        del tile
        return weights

    def accumulate(
        self, shape: TileShape, starts: Sequence[str], source: str, weights: tuple[str, str], row: str
    ) -> list[str]:
        """See `FloatMicroKernel.accumulate`."""
        del shape, source, row
        code, v, (panel, _) = self._code, self._vector, weights
        parts = -(-self._tile.vectors // _MAX_VECTORS)
        bounds = [part * self._tile.vectors // parts for part in range(parts + 1)]
        sums = [
            each for first, end in pairwise(bounds) for each in self._digit_sums(panel, range(first, end))
        ]
        sums = self._special_sums(sums, panel)
        found = []
        for number, (each, start) in enumerate(zip(sums, starts, strict=True)):
            at = address(code, panel, str(number * _REGISTER_BYTES))
            scale = code.fresh(f"load {v.type('float')}, ptr {at}, align {self._weights.align}")
            found.append(v.fma("float", each, scale, start))
        return found

    def _digit_sums(self, panel: str, vectors: range) -> list[str]:
        """Returns the sums of vectors for finite inputs, without the scales of channels."""
        code, v, memory = self._code, self._vector, self._copy.memory
        kind = v.type("i32")
        before = [self._word(address(code, memory, str(4 * digit))) for digit in range(_DIGITS)]
        groups = self._copy.product.terms // _GROUP
        with code.loop("0", str(groups), [(kind, each) for each in before] * len(vectors)) as loop:
            at = address(code, memory, str(_DIGITS_AT), multiple(code, loop.index, _DIGITS * _GROUP))
            digits = [self._word(address(code, at, str(_GROUP * digit))) for digit in range(_DIGITS)]
            digits = [code.value(f"bitcast {kind} {each} to <{_REGISTER_BYTES} x i8>") for each in digits]
            for number, vector in enumerate(vectors):
                group = self._group(panel, loop.index, vector)
                group = code.fresh(f"load <{_REGISTER_BYTES} x i8>, ptr {group}, align {self._weights.align}")
                for digit, each in enumerate(digits):
                    loop.results.append(_dot(v, loop.carried[number * _DIGITS + digit], group, each))
        at = address(code, memory, str(_INVERSE_AT))
        inverse = v.splat("float", code.fresh(f"load float, ptr {at}, align 4"))
        base, found = v.number("float", 256.0), []
        for number in range(len(vectors)):
            *lower, value = (
                v.cast("sitofp", "i32", each, "float") for each in loop.results[number * _DIGITS :][:_DIGITS]
            )
            for each in reversed(lower):
                value = v.fma("float", value, base, each)
            found.append(v.binary("fmul", "float", value, inverse))
        return found

    def _special_sums(self, sums: Sequence[str], panel: str) -> list[str]:
        """Returns the sums of products of floats if an input is not finite, else `sums`."""
        code, v = self._code, self._vector
        at = address(code, self._copy.memory, str(_TERMS_AT))
        count = code.fresh(f"load i64, ptr {at}, align 8")
        is_finite = v.splat("i1", code.fresh(f"icmp eq i64 {count}, 0"))
        kind = v.type("float")
        carried = [(kind, v.select(is_finite, "float", each, v.number("float", 0))) for each in sums]
        with code.loop("0", count, carried, may_be_empty=True) as loop:
            at = address(code, self._copy.source, multiple(code, loop.index, _FLOAT_BYTES))
            x = v.splat("float", code.fresh(f"load float, ptr {at}, align {_FLOAT_BYTES}"))
            group = code.value(f"lshr i64 {loop.index}, {_GROUP.bit_length() - 1}")
            place = code.value(f"and i64 {loop.index}, {_GROUP - 1}")
            shift = code.value(f"trunc i64 {multiple(code, place, 8)} to i32")
            for number, each in enumerate(loop.carried):
                word = code.fresh(
                    f"load {v.type('i32')}, ptr {self._group(panel, group, number)}, "
                    f"align {self._weights.align}"
                )
                word = v.binary("lshr", "i32", word, v.splat("i32", shift))
                word = v.binary("and", "i32", word, v.number("i32", 0xFF))
                weight = v.binary("sub", "i32", word, v.number("i32", _WEIGHT_BIAS))
                loop.results.append(v.fma("float", x, v.cast("sitofp", "i32", weight, "float"), each))
        return loop.results

    def _group(self, panel: str, group: str, vector: int) -> str:
        """Returns the address of a vector's weights of a group of terms."""
        own = multiple(self._code, group, _GROUP * self._weights.term_bytes)
        return address(self._code, panel, str(self._weights.scale_bytes), own, str(vector * _REGISTER_BYTES))

    def _word(self, at: str) -> str:
        """Returns a word of 32 bits in all lanes."""
        return self._vector.splat("i32", self._code.fresh(f"load i32, ptr {at}, align 4"))


def _grouped(v: Vector, words: str) -> str:
    """Returns the bytes of each four words: the first ones of all, then the second ones, …."""
    order = [
        first + _DIGITS * term + digit
        for first in range(0, _REGISTER_BYTES, _DIGITS * _GROUP)
        for digit in range(_DIGITS)
        for term in range(_GROUP)
    ]
    kind, lanes = f"<{_REGISTER_BYTES} x i8>", ", ".join(f"i32 {each}" for each in order)
    given = v.code.value(f"bitcast {v.type('i32')} {words} to {kind}")
    return v.code.value(f"shufflevector {kind} {given}, {kind} poison, <{_REGISTER_BYTES} x i32> <{lanes}>")


def _dot(v: Vector, total: str, unsigned: str, signed: str) -> str:
    """Adds products of four unsigned by four signed bytes to the sums."""
    whole, kind = v.type("i32"), f"<{_REGISTER_BYTES} x i8>"
    name = "@llvm.x86.avx512.vpdpbusd.512"
    v.code.declarations.add(f"declare {whole} {name}({whole}, {kind}, {kind})")
    return v.code.fresh(f"call {whole} {name}({whole} {total}, {kind} {unsigned}, {kind} {signed})")
