"""Packs bytes of matrices to the words that a scheme multiplies, at run time."""

from collections.abc import Sequence

from msgspec import Struct

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address
from neurald.drivers.cpu.kernels.int8.scheme import Scheme


class WordPacking(Struct, frozen=True, kw_only=True):
    """Conversion of stored bytes to words of elements.

    Attributes:
        scheme: multiplication scheme.
        type: the type of stored elements, of one byte.
        zero: their zero point, which 16-bit elements are without.
        is_signed: True if the bytes of a scheme of bytes are signed, as weights are.
    """

    scheme: Scheme
    type: Scalar
    zero: int
    is_signed: bool

    @property
    def terms(self) -> int:
        """Number of elements in a vector of words."""
        return self.scheme.lanes * self.scheme.group

    def load(self, code: Instructions, source: str, count: int, lanes: int) -> str:
        """Loads `count` bytes, followed by zeros, as a vector of `lanes`; reads no others."""
        if count == lanes:
            return code.fresh(f"load <{lanes} x i8>, ptr {source}, align 1")
        part = 1 << (count.bit_length() - 1)
        kind = f"<{part} x i8>"
        parts = [
            code.fresh(f"load {kind}, ptr {address(code, source, str(offset))}, align 1")
            for offset in dict.fromkeys((0, count - part))
        ]
        # The second part overlaps the first one.
        joined = _picked(
            code,
            kind,
            (parts[0], parts[-1]),
            [each if each < part else 2 * part + each - count for each in range(count)],
        )
        own = f"<{count} x i8>"
        return _picked(code, own, (joined, "zeroinitializer"), [min(each, count) for each in range(lanes)])

    def of_rows(self, code: Instructions, rows: Sequence[str]) -> str:
        """Returns a word for each lane, with an element of each row; the first in the lowest bits.

        Args:
            code: receives the instructions.
            rows: vectors of stored elements, at most as many as a word has; zeros follow them.
        """
        scheme = self.scheme
        v, bits = Vector(code, scheme.target, scheme.lanes), 8 * scheme.element_bytes
        word = ""
        for number, row in enumerate(rows):
            extension = "sext" if self.type is Scalar.INT8 and not scheme.is_bytes else "zext"
            value = v.cast(extension, "i8", row, "i32")
            if not scheme.is_bytes:
                value = v.binary("sub", "i32", value, v.number("i32", self.zero)) if self.zero else value
                if number < scheme.group - 1:
                    value = v.binary("and", "i32", value, v.number("i32", (1 << bits) - 1))
            if number:
                value = v.binary("shl", "i32", value, v.number("i32", number * bits))
            word = v.binary("or", "i32", word, value) if word else value
        if not self._changes_sign:
            return word
        mask = int.from_bytes(b"\x80" * len(rows), "little", signed=len(rows) == scheme.group)
        return v.binary("xor", "i32", word, v.number("i32", mask))

    def of_terms(self, code: Instructions, elements: str, count: int) -> str:
        """Returns words of consecutive elements, with zeros after the first `count`."""
        scheme = self.scheme
        v = Vector(code, scheme.target, self.terms)
        if scheme.is_bytes:
            if self._changes_sign:
                mask = v.numbers("i8", [-128 * (each < count) for each in range(v.lanes)])
                elements = v.binary("xor", "i8", elements, mask)
        else:
            elements = v.cast("sext" if self.type is Scalar.INT8 else "zext", "i8", elements, "i16")
            if self.zero:
                zeros = v.numbers("i16", [self.zero * (each < count) for each in range(v.lanes)])
                elements = v.binary("sub", "i16", elements, zeros)
        return code.value(f"bitcast {v.type(scheme.element)} {elements} to <{scheme.lanes} x i32>")

    @property
    def _changes_sign(self) -> bool:
        """True if bytes are stored with the other signedness."""
        return self.scheme.is_bytes and (self.type is Scalar.INT8) != self.is_signed


def _picked(code: Instructions, kind: str, sources: tuple[str, str], lanes: Sequence[int]) -> str:
    """Returns some lanes of two vectors."""
    order = ", ".join(f"i32 {each}" for each in lanes)
    one, other = sources
    return code.fresh(f"shufflevector {kind} {one}, {kind} {other}, <{len(lanes)} x i32> <{order}>")
