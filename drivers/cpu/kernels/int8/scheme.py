"""How products of bytes are summed: the instructions of a target, and what they need inputs and weights to look like.

Inputs are taken a word of 32 bits at a time: so many neighbouring elements of a pixel, put into every lane of a vector. Weights
are vectors of words, of another channel in each lane. One step multiplies them element by element and adds what a word gives
to the 32-bit sum of its lane.
"""

from dataclasses import dataclass

import numpy as np

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import Target

WORD_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """What a step multiplies.

    Bytes are unsigned inputs and signed weights. Halves are signed ones of 16 bits, of which the zero points were taken off;
    that every product of bytes fits in them, and two of them in a sum, makes them exact.

    Attributes:
        target: what code is generated for.
        is_bytes: elements are bytes, four to a word; otherwise halves, two to a word.
    """

    target: Target
    is_bytes: bool

    @property
    def label(self) -> str:
        """For people."""
        return "bytes" if self.is_bytes else "halves"

    @property
    def lanes(self) -> int:
        """Channels in a vector."""
        return self.target.lanes(WORD_BYTES)

    @property
    def group(self) -> int:
        """Elements of a word."""
        return 4 if self.is_bytes else 2

    @property
    def element(self) -> str:
        """The LLVM type of an element."""
        return "i8" if self.is_bytes else "i16"

    @property
    def element_bytes(self) -> int:
        """Of an element of inputs and weights."""
        return WORD_BYTES // self.group

    @property
    def dtype(self) -> "np.dtype[np.signedinteger]":
        """How weights are stored."""
        return np.dtype(np.int8 if self.is_bytes else np.int16)

    @property
    def cycles(self) -> float:
        """What a step takes."""
        if self.target.has_vnni:
            return 0.5
        return 1.0 if self.target.vector_bytes > 16 else 1.5

    @property
    def spare_registers(self) -> int:
        """Registers that steps need beside sums and weights."""
        return 1 if self.target.has_vnni else 2

    def step(self, code: Instructions, total: str, inputs: str, weights: str) -> str:
        """The sums after another step; all are vectors of i32."""
        v = Vector(code, self.target, self.lanes)
        parts = Vector(code, self.target, self.lanes * self.group)
        whole, element = v.type("i32"), parts.type(self.element)
        first, second = (code.value(f"bitcast {whole} {each} to {element}") for each in (inputs, weights))
        if self.target.has_vnni:
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
        """The products of even and of odd elements, added: what compilers know an instruction for, where there is one."""
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


#: Intrinsics that add the products of pairs of halves, by the name of the target.
_PAIR_SUMS = {
    "avx512": "@llvm.x86.avx512.pmaddw.d.512",
    "avx2": "@llvm.x86.avx2.pmadd.wd",
}
