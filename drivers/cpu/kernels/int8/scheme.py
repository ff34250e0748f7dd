"""Multiply-accumulate schemes: instructions of a target, and the form of their operands.

Inputs are read as packed 32-bit words: neighbouring elements of a pixel, broadcast to every lane of
a vector. Weights are vectors of words, with another channel in each lane. One step multiplies them
element by element and adds the products of a word to the 32-bit sum of its lane.
"""

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import Target

WORD_BYTES = 4


class Scheme(Struct, frozen=True, kw_only=True):
    """Elements multiplied by a step.

    Bytes are unsigned inputs and signed weights. Otherwise elements are signed 16-bit values
    without zero points ("halves"); products of bytes, and sums of two, are exact in them.

    Attributes:
        target: the target of the code.
        is_bytes: True for bytes, four to a word; else halves, two to a word.
        has_tiles: True if products of tiles (AMX) take the place of steps. A tile of inputs has a
            row of words for each position, a tile of weights a row of lanes for each word.
    """

    target: Target
    is_bytes: bool
    has_tiles: bool = False

    @property
    def label(self) -> str:
        """Describes the scheme, for profiles."""
        if self.has_tiles:
            return "int8 tiles"
        return "int8" if self.is_bytes else "int16"

    @property
    def lanes(self) -> int:
        """Number of channels per vector."""
        return self.target.lanes(WORD_BYTES)

    @property
    def group(self) -> int:
        """Number of elements per word."""
        return 4 if self.is_bytes else 2

    @property
    def element(self) -> str:
        """LLVM type of an element."""
        return "i8" if self.is_bytes else "i16"

    @property
    def element_bytes(self) -> int:
        """Size of an element of inputs and weights."""
        return WORD_BYTES // self.group

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
            return 0.5
        return 1.0 if self.target.vector_bytes > 16 else 1.5

    @property
    def spare_registers(self) -> int:
        """Number of registers needed besides sums and weights."""
        return 1 if self.is_one_step else 2

    def step(self, code: Instructions, total: str, inputs: str, weights: str) -> str:
        """Computes the sums after a step; all are vectors of i32."""
        v = Vector(code, self.target, self.lanes)
        parts = Vector(code, self.target, self.lanes * self.group)
        whole, element = v.type("i32"), parts.type(self.element)
        first, second = (code.value(f"bitcast {whole} {each} to {element}") for each in (inputs, weights))
        if self.is_one_step:
            if self.target.machine == "aarch64":
                name = "@llvm.aarch64.neon.usdot.v4i32.v16i8"
            else:
                name = f"@llvm.x86.avx512.{'vpdpbusd' if self.is_bytes else 'vpdpwssd'}.512"
            code.declarations.add(f"declare {whole} {name}({whole}, {element}, {element})")
            return code.fresh(f"call {whole} {name}({whole} {total}, {element} {first}, {element} {second})")
        known = _PAIR_SUMS.get(self.target.name)
        if known is not None:
            code.declarations.add(f"declare {whole} {known}({element}, {element})")
            products = code.fresh(f"call {whole} {known}({element} {first}, {element} {second})")
        else:
            products = self._pair_sums(code, first, second)
        return code.fresh(f"add {whole} {total}, {products}")

    def _pair_sums(self, code: Instructions, first: str, second: str) -> str:
        """Adds the products of even and odd elements, in a form that LLVM can match."""
        v = Vector(code, self.target, self.lanes)
        element, half = f"<{2 * self.lanes} x i16>", v.type("i16")
        products = []
        for parity in (0, 1):
            picked = ", ".join(f"i32 {2 * lane + parity}" for lane in range(self.lanes))
            factors = []
            for name in (first, second):
                part = code.fresh(
                    f"shufflevector {element} {name}, {element} poison, <{self.lanes} x i32> <{picked}>"
                )
                factors.append(code.fresh(f"sext {half} {part} to {v.type('i32')}"))
            products.append(code.fresh(f"mul {v.type('i32')} {factors[0]}, {factors[1]}"))
        return code.fresh(f"add {v.type('i32')} {products[0]}, {products[1]}")


#: Intrinsics that add products of pairs of 16-bit values, by target.
_PAIR_SUMS = {
    "avx512": "@llvm.x86.avx512.pmaddw.d.512",
    "avx2": "@llvm.x86.avx2.pmadd.wd",
}
