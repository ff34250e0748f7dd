"""Quantised products with few channels and many terms; see `kernels.gemm.dot_products`."""

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math.integers import is_signed
from neurald.drivers.cpu.emit.op_table import stored
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import arguments_with
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.gemm import dot_products
from neurald.drivers.cpu.kernels.int8.packing.panels import QuantizedWeights
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.target.routine import Routine

#: Cycles per result besides summing the lanes: results are rescaled one by one.
_END_CYCLES = 28.0
#: Cycles per word with vectors of channels: to multiply, and to read the weights for all positions.
_WORD_CYCLES, _READ_CYCLES = 1.0, 1.3


class _QuantizedDotOperands:
    """Quantised inputs and packed weights in a scheme's form; see `dot_products.DotOperands`.

    The last vector of a sum overlaps earlier terms, whose weights are 0 there.

    Args:
        scheme: multiplies them.
        source: type of inputs.
        zero: zero point of inputs.
        weights: the weights of one group.
    """

    element = "i32"

    def __init__(self, scheme: Scheme, source: Scalar, zero: int, weights: QuantizedWeights) -> None:
        self._scheme, self._source, self._zero = scheme, source, zero
        self.lanes = scheme.lanes
        self.terms = scheme.lanes * scheme.group
        (factors,), (self._starts,) = weights.factors, weights.starts
        self.packed = self._packed(factors)
        self.row_bytes = self.packed.shape[1]

    def _packed(self, factors: Array) -> Array:
        """Returns the packed weights: (channels, bytes)."""
        channels, terms = factors.shape
        whole = terms // self.terms * self.terms
        parts = [factors[:, :whole]]
        if whole < terms:
            last = factors[:, terms - self.terms :].copy()
            last[:, : self.terms - (terms - whole)] = 0
            parts.append(last)
        packed = np.ascontiguousarray(np.concatenate(parts, axis=1), self._scheme.dtype)
        return packed.view(np.uint8).reshape(channels, -1)

    def inputs(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """See `dot_products.DotOperands`."""
        scheme, source = self._scheme, self._source
        v = Vector(code, scheme.target, self.terms)
        begin = total(code, first, str(min(0, count - self.terms)))
        at = address(code, pointer, multiple(code, begin, source.size_bytes))
        loaded = code.fresh(f"load {v.type(stored(source))}, ptr {at}, align {source.size_bytes}")
        if scheme.is_bytes:
            is_changed = bool(scheme.shift_of(source))
            value = v.binary("xor", "i8", loaded, v.number("i8", -128)) if is_changed else loaded
        else:
            value = loaded
            if source.size_bytes == 1:
                value = v.cast("sext" if is_signed(source) else "zext", "i8", loaded, "i16")
            if self._zero:
                value = v.binary("sub", "i16", value, v.number("i16", self._zero))
        return code.value(f"bitcast {v.type(scheme.element)} {value} to <{self.lanes} x i32>")

    def weights(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """See `dot_products.DotOperands`."""
        at = address(code, pointer, multiple(code, first, self._scheme.element_bytes))
        return code.fresh(f"load <{self.lanes} x i32>, ptr {at}, align {self._scheme.target.vector_bytes}")

    def step(self, code: Instructions, totals: str, inputs: str, weights: str) -> str:
        """See `dot_products.DotOperands`."""
        return self._scheme.step(code, totals, inputs, weights)

    def end(self, code: Instructions, total: str, channel: int) -> str:
        """See `dot_products.DotOperands`."""
        return code.value(f"add i32 {total}, {int(self._starts[channel])}")


def routine(
    kernel: Kernel, product: WindowedProduct, scheme: Scheme, weights: QuantizedWeights, zero: int
) -> Routine | None:
    """Returns the routine of a kernel, or None if vectors along channels are better.

    Args:
        kernel: its output is not empty.
        product: its contraction.
        scheme: multiplication scheme.
        weights: the weights.
        zero: zero point of inputs.
    """
    terms = scheme.lanes * scheme.group
    if not dot_products.is_plain(product) or weights.sums or product.terms < terms:
        return None
    cycles = dot_products.cycles_of(product, terms) + product.positions * product.channels * _END_CYCLES
    words = product.terms / scheme.group
    others = words * max(product.positions * _WORD_CYCLES, _READ_CYCLES)
    if product.channels >= scheme.lanes or cycles > others:
        return None
    factors = _QuantizedDotOperands(scheme, product.type, zero, weights)
    packed = Value(factors.packed.shape, Scalar.UINT8, factors.packed, product.weights.value.name)
    arguments = arguments_with(kernel, (product.source, packed))
    return dot_products.routine(
        kernel, product, scheme.target, factors, (packed, arguments), cycles, f"{scheme.label}, "
    )
