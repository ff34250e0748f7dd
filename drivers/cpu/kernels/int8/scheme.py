"""Multiply-accumulate schemes: instructions of a target, and the form of their operands.

Inputs are read as packed words, usually of 32 bits: neighbouring elements of a pixel, broadcast to
every lane of a vector. Weights are vectors of words, with another channel in each lane. One step
multiplies them element by element and adds the products of a word to the 32-bit sum of its lane.

Some targets multiply matrices: 64 bits of two positions by those of two channels. Words then have
64 or 128 bits, so that those of a vector of channels take two or four registers (see
`product.word_products`).
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Size of a sum, and of a word that is not one of matrices.
WORD_BYTES = 4
#: Size of a word that one instruction multiplies by another one, in products of matrices.
MATRIX_WORD_BYTES = 8
#: Registers for words of inputs that LLVM loads ahead where no instruction multiplies by memory.
#: With fewer, it moves sums to other registers or to the stack.
_WORD_REGISTERS = 6
#: Registers for weights that LLVM loads ahead where matrices are multiplied.
_WEIGHT_REGISTERS = 8


class Scheme(Struct, frozen=True, kw_only=True):
    """Elements multiplied by a step.

    Bytes of weights are signed, those of inputs as the target's instructions take them. Otherwise
    elements are signed 16-bit values without zero points ("halves"); products of bytes, and sums of
    two, are exact in them.

    Attributes:
        target: the target of the code.
        is_bytes: True for bytes, four to a word; else halves, two to a word.
        is_signed: True if bytes of inputs are signed, for targets that multiply either kind.
        has_tiles: True if products of tiles (AMX) take the place of steps. A tile of inputs has a
            row of words for each position, a tile of weights a row of lanes for each word.
        matrix_words: if products of matrices take the place of steps, how many of their words of
            64 bits are one word of the scheme; else 0.
    """

    target: Target
    is_bytes: bool
    is_signed: bool = False
    has_tiles: bool = False
    matrix_words: int = 0

    @property
    def of_steps(self) -> "Scheme":
        """The scheme with the same elements in words of 32 bits, which `step` multiplies."""
        return replace(self, matrix_words=0) if self.has_matrices else self

    @property
    def has_matrices(self) -> bool:
        """True if products of matrices take the place of steps."""
        return self.matrix_words > 0

    @property
    def label(self) -> str:
        """Describes the scheme, for profiles."""
        if self.has_tiles:
            return "int8 tiles"
        if self.has_matrices:
            return "int8 matrices"
        return "int8" if self.is_bytes else "int16"

    @property
    def lanes(self) -> int:
        """Number of channels per vector."""
        return self.target.lanes(WORD_BYTES)

    @property
    def group(self) -> int:
        """Number of elements per word."""
        if self.has_matrices:
            return self.matrix_words * MATRIX_WORD_BYTES
        return 4 if self.is_bytes else 2

    @property
    def word_bytes(self) -> int:
        """Size of a word."""
        return self.group * self.element_bytes

    @property
    def word_registers(self) -> int:
        """Number of registers that have a word for each lane."""
        return self.word_bytes // WORD_BYTES

    @property
    def together(self) -> int:
        """Number of positions that are multiplied by one instruction."""
        return 2 if self.has_matrices else 1

    @property
    def element(self) -> str:
        """LLVM type of an element."""
        return "i8" if self.is_bytes else "i16"

    @property
    def element_bytes(self) -> int:
        """Size of an element of inputs and weights."""
        return 1 if self.is_bytes else 2

    @property
    def dtype(self) -> "np.dtype[np.signedinteger]":
        """NumPy type of weights."""
        return np.dtype(np.int8 if self.is_bytes else np.int16)

    @property
    def is_one_step(self) -> bool:
        """True if one instruction multiplies and adds."""
        return self.target.has_byte_dots if self.is_bytes else self.target.has_short_dots

    @property
    def cycles(self) -> float:
        """Cycles per step."""
        if self.is_one_step:
            return 0.5 * max(1, self.matrix_words)
        return 1.0 if self.target.vector_bytes > 16 else 1.5

    @property
    def has_signed_inputs(self) -> bool:
        """True if inputs are signed."""
        if self.target.has_signed_dots and self.target.has_mixed_dots:
            return self.is_signed or not self.is_bytes
        return not self.is_bytes or self.target.has_signed_dots

    def shift_of(self, kind: Scalar) -> int:
        """Returns what is added to stored bytes of inputs before they are multiplied."""
        if not self.is_bytes or self.has_signed_inputs == (kind is Scalar.INT8):
            return 0
        return -128 if self.has_signed_inputs else 128

    @property
    def spare_registers(self) -> int:
        """Number of registers needed besides sums and weights."""
        if self.has_matrices:
            return _WEIGHT_REGISTERS
        if self.target.machine == "aarch64":
            return _WORD_REGISTERS
        return 1 if self.is_one_step else 2

    @property
    def weights_registers(self) -> int:
        """Number of registers that a vector of weights takes while it is multiplied."""
        return self.group if self.multiplies_by_element else 1

    @property
    def multiplies_by_element(self) -> bool:
        """True if a step multiplies vectors by the elements of a word, one after another."""
        return self.target.machine == "aarch64" and not self.is_one_step

    def multiply_matrices(self, code: Instructions, totals: str, inputs: str, weights: str) -> str:
        """Adds the products of the words of two positions and two channels.

        Args:
            code: receives the instructions.
            totals: the sums before, a vector of i32: those of the first position, then those of the
                second one.
            inputs, weights: the words of both positions or channels, vectors of i64.
        """
        elements = [code.value(f"bitcast <2 x i64> {each} to <16 x i8>") for each in (inputs, weights)]
        name = f"@llvm.aarch64.neon.{'smmla' if self.has_signed_inputs else 'usmmla'}.v4i32.v16i8"
        code.declarations.add(f"declare <4 x i32> {name}(<4 x i32>, <16 x i8>, <16 x i8>)")
        given = ", ".join(f"<16 x i8> {each}" for each in elements)
        return code.fresh(f"call <4 x i32> {name}(<4 x i32> {totals}, {given})")

    def broadcast(self, code: Instructions, word: str) -> str:
        """Returns a word as inputs of `step` that are broadcast."""
        v = Vector(code, self.target, self.lanes)
        if self.multiplies_by_element:
            # Only the first lane is used.
            return code.fresh(f"insertelement {v.type('i32')} poison, i32 {word}, i64 0")
        return v.splat("i32", word)

    def step(
        self, code: Instructions, total: str, inputs: str, weights: str, *, is_broadcast: bool = False
    ) -> str:
        """Computes the sums after a step; all are vectors of i32.

        Args:
            code: receives the instructions.
            total: the sums before.
            inputs, weights: the words to multiply.
            is_broadcast: True if the inputs are a word that `broadcast` returned.
        """
        v = Vector(code, self.target, self.lanes)
        parts = Vector(code, self.target, self.lanes * self.group)
        whole, element = v.type("i32"), parts.type(self.element)
        first, second = (code.value(f"bitcast {whole} {each} to {element}") for each in (inputs, weights))
        if self.is_one_step:
            if self.target.machine == "aarch64":
                name = f"@llvm.aarch64.neon.{'sdot' if self.has_signed_inputs else 'usdot'}.v4i32.v16i8"
            else:
                name = f"@llvm.x86.avx512.{'vpdpbusd' if self.is_bytes else 'vpdpwssd'}.512"
            code.declarations.add(f"declare {whole} {name}({whole}, {element}, {element})")
            return code.fresh(f"call {whole} {name}({whole} {total}, {element} {first}, {element} {second})")
        if self.multiplies_by_element and is_broadcast:
            return self._add_by_element(code, total, first, second)
        known = _PAIR_SUMS.get(self.target.name)
        if known is not None:
            code.declarations.add(f"declare {whole} {known}({element}, {element})")
            products = code.fresh(f"call {whole} {known}({element} {first}, {element} {second})")
        elif self.multiplies_by_element:
            products = self._neighbour_sums(code, first, second)
        else:
            products = self._pair_sums(code, first, second)
        return code.fresh(f"add {whole} {total}, {products}")

    def _add_by_element(self, code: Instructions, total: str, word: str, weights: str) -> str:
        """Adds the products with each element of a word.

        NEON multiplies vectors by an element of another one, and adds the products to the sums.
        """
        kind = f"<{self.lanes} x i32>"
        for parity in (0, 1):
            factor = self._halves(code, word, [parity] * self.lanes)
            column = self._halves(code, weights, range(parity, 2 * self.lanes, 2))
            total = code.fresh(f"add {kind} {total}, {code.fresh(f'mul {kind} {factor}, {column}')}")
        return total

    def _neighbour_sums(self, code: Instructions, first: str, second: str) -> str:
        """Adds neighbouring products, for which NEON has an instruction."""
        kind, product = f"<{self.lanes} x i32>", f"<{2 * self.lanes} x i32>"
        wide = [code.fresh(f"sext <{2 * self.lanes} x i16> {each} to {product}") for each in (first, second)]
        products = code.fresh(f"mul {product} {wide[0]}, {wide[1]}")
        parts = [
            code.fresh(
                f"shufflevector {product} {products}, {product} poison, "
                f"<{self.lanes} x i32> <{_listed(range(parity, 2 * self.lanes, 2))}>"
            )
            for parity in (0, 1)
        ]
        return code.fresh(f"add {kind} {parts[0]}, {parts[1]}")

    def _pair_sums(self, code: Instructions, first: str, second: str) -> str:
        """Adds the products of even and odd elements, in a form that LLVM can match."""
        kind, products = f"<{self.lanes} x i32>", []
        for parity in (0, 1):
            factors = [self._halves(code, each, range(parity, 2 * self.lanes, 2)) for each in (first, second)]
            products.append(code.fresh(f"mul {kind} {factors[0]}, {factors[1]}"))
        return code.fresh(f"add {kind} {products[0]}, {products[1]}")

    def _halves(self, code: Instructions, elements: str, picked: Iterable[int]) -> str:
        """Returns these elements of a vector of i16 as a vector of i32."""
        element = f"<{2 * self.lanes} x i16>"
        part = code.fresh(
            f"shufflevector {element} {elements}, {element} poison, <{self.lanes} x i32> <{_listed(picked)}>"
        )
        return code.fresh(f"sext <{self.lanes} x i16> {part} to <{self.lanes} x i32>")


def _listed(picked: Iterable[int]) -> str:
    return ", ".join(f"i32 {each}" for each in picked)


#: Intrinsics that add products of pairs of 16-bit values, by target.
_PAIR_SUMS = {
    "avx512": "@llvm.x86.avx512.pmaddw.d.512",
    "avx2": "@llvm.x86.avx2.pmadd.wd",
}
