"""Products with few channels and many terms, vectorised along the terms.

Most lanes would be idle in vectors of few channels. Therefore vectors of terms are read from an
input and from the weights of each channel, and the lanes of the accumulators are summed at the end.
"""

import math
from collections.abc import Sequence
from typing import Protocol

from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, is_zero
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.emit import vector_memory
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector, first_lanes
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.flattened import flattened
from neurald.drivers.cpu.kernels.common.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.common.horizontal import horizontal_sum
from neurald.drivers.cpu.kernels.common.product import WindowedProduct
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target

#: Channels computed together, and accumulators in flight.
_CHANNELS = 4
_ACCUMULATORS_IN_FLIGHT = 8
#: Cycles for summing the lanes and storing a result.
_END_CYCLES = 12.0
#: Cycles per term and position with vectors of channels.
_TERM_CYCLES = 0.8


class DotOperands(Protocol):
    """Multiply-accumulate for one combination of input and weight types.

    Attributes:
        terms: number of terms per vector of inputs.
        element: LLVM type of sums.
        lanes: number of lanes per vector of sums.
        row_bytes: distance between the weights of neighbouring channels.
    """

    terms: int
    element: str
    lanes: int
    row_bytes: int

    def inputs(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """Loads `count` inputs from a term on, in the form in which they are multiplied.

        Args:
            code: receives the instructions.
            pointer: address of the input.
            first: number of the first term.
            count: number of remaining terms, or more.
        """

    def weights(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """Loads weights of a channel; see `inputs`."""

    def step(self, code: Instructions, totals: str, inputs: str, weights: str) -> str:
        """Adds the products of a vector of terms to the sums."""

    def end(self, code: Instructions, total: str, channel: int) -> str:
        """Returns the result of a channel from the sum of its products."""


class FloatDotOperands:
    """FLOAT32 factors; the terms of a channel are contiguous.

    Args:
        target: the target of the code.
        terms: number of terms per sum, which may be an extent.
    """

    element = "float"
    weight_bytes = 4

    def __init__(self, target: Target, terms: int) -> None:
        self.terms = self.lanes = target.lanes(self.weight_bytes)
        self.row_bytes = terms * self.weight_bytes
        self._target = target

    def inputs(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """See `DotOperands`. Missing terms are loaded as 0, because inputs may be infinite."""
        v = Vector(code, self._target, self.lanes)
        if not isinstance(count, Extent) and count >= self.terms:
            return vector_memory.load(v, self.element, pointer, first)
        return vector_memory.masked_load(v, self.element, pointer, first, first_lanes(v, count))

    def weights(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """See `DotOperands`."""
        return self.inputs(code, pointer, first, count)

    def step(self, code: Instructions, totals: str, inputs: str, weights: str) -> str:
        """See `DotOperands`."""
        return Vector(code, self._target, self.lanes).fma("float", inputs, weights, totals)

    def end(self, code: Instructions, total: str, channel: int) -> str:
        """See `DotOperands`."""
        return total


def is_plain(product: WindowedProduct) -> bool:
    """Returns True if the inputs and the weights of every sum are contiguous."""
    taps = product.rows.taps * product.columns.taps
    return (
        taps == 1
        and product.rows.is_inside
        and product.columns.is_inside
        and all(each.extent == 1 for each in product.batches)
        and product.element_bytes == product.type.size_bytes
    )


def cycles_of(product: WindowedProduct, vector_terms: int) -> float:
    """Returns the estimated cycles of all sums."""
    each = product.terms / vector_terms + _END_CYCLES
    return product.positions * product.channels * each


def float_routine(kernel: Kernel, product: WindowedProduct, target: Target) -> Routine | None:
    """Returns the routine of a FLOAT32 product, or None if vectors along channels are better.

    Args:
        kernel: its output is not empty.
        product: its contraction, with at least one term.
        target: the target of the code.
    """
    operand = product.weights
    is_float = product.type is operand.value.type is Scalar.FLOAT32
    if not is_float or not is_plain(product) or operand.term_step != 1:
        return None
    lanes = target.lanes(FloatDotOperands.weight_bytes)
    cycles = cycles_of(product, lanes)
    if product.channels >= lanes or cycles > product.positions * product.terms * _TERM_CYCLES:
        return None
    factors = FloatDotOperands(target, product.terms)
    arguments = arguments_with(kernel, (product.source, operand.value))
    return routine(kernel, product, target, factors, (operand.value, arguments), cycles, "")


def routine(
    kernel: Kernel,
    product: WindowedProduct,
    target: Target,
    factors: DotOperands,
    read: tuple[Value, Sequence[Value]],
    cycles: float,
    label: str,
) -> Routine:
    """Returns the routine of a kernel.

    Args:
        kernel: its output is not empty.
        product: its contraction, see `is_plain`.
        target: the target of the code.
        factors: types of inputs and weights.
        read: the weights as they are read, and all arguments of the function.
        cycles: see `cycles_of`.
        label: describes the factors, for profiles.
    """
    weights, arguments = read
    code = Instructions(parameter_names(arguments))
    names = pointer_names(arguments)
    extents = (product.images, product.rows.positions, product.columns.positions)
    kernel, v = flattened(kernel), Vector(code, target, factors.lanes)
    with each_work_item(code, extents) as (position, _):
        image, row, column = position
        source = address(
            code,
            names[product.source],
            multiple(code, image, product.image_bytes),
            multiple(code, row, product.rows.stride * product.row_bytes),
            multiple(code, column, product.columns.stride * product.pixel_bytes),
        )
        offset = total(
            code,
            multiple(code, image, product.rows.positions * product.columns.positions),
            multiple(code, row, product.columns.positions),
            column,
        )
        for first in range(0, product.channels, _CHANNELS):
            channels = range(first, min(first + _CHANNELS, product.channels))
            sums = _sums(code, target, factors, product.terms, source, (names[weights], channels))
            for channel, each in zip(channels, sums, strict=True):
                result = factors.end(code, horizontal_sum(v, factors.element, each), channel)
                epilogue(kernel, target, code, result, (offset, str(channel)), 1, pointers=names)
    return Routine(
        text=function_text(code, arguments),
        arguments=tuple(arguments),
        work_items=math.prod(extents),
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        label=f"{label}{factors.terms} terms at once, {min(_CHANNELS, product.channels)} channels",
        operations=kernel.operations,
    )


def _sums(
    code: Instructions,
    target: Target,
    factors: DotOperands,
    terms: int,
    source: str,
    read: tuple[str, Sequence[int]],
) -> list[str]:
    """Returns a vector of sums for each channel; see `DotOperands`."""
    weights, channels = read
    v, count = Vector(code, target, factors.lanes), len(channels)
    steps, is_open = -(-terms // factors.terms), isinstance(terms, Extent)
    copies = max(1, min(_ACCUMULATORS_IN_FLIGHT // count, estimate(steps)))
    rows = [address(code, weights, str(channel * factors.row_bytes)) for channel in channels]

    def add(sums: Sequence[str], first: str, left: int) -> list[str]:
        inputs = factors.inputs(code, source, first, left)
        return [
            factors.step(code, each, inputs, factors.weights(code, row, first, left))
            for each, row in zip(sums, rows, strict=True)
        ]

    sums = [[v.number(factors.element, 0)] * count for _ in range(copies)]
    # The last terms may not fill a vector.
    whole = terms // factors.terms // copies * copies
    if is_open or whole > copies:
        carried = [(v.type(factors.element), each) for copy in sums for each in copy]
        end = str(whole * factors.terms)
        with code.loop("0", end, carried, step=copies * factors.terms, may_be_empty=is_open) as loop:
            loop.results = [
                each
                for copy in range(copies)
                for each in add(
                    loop.carried[copy * count : (copy + 1) * count],
                    total(code, loop.index, str(copy * factors.terms)),
                    factors.terms,
                )
            ]
        sums = [loop.results[copy * count : (copy + 1) * count] for copy in range(copies)]
    else:
        whole = 0
    if is_open:
        # The rest of the whole vectors, and then of the terms.
        last = terms // factors.terms * factors.terms
        if copies > 1:
            carried = [(v.type(factors.element), each) for each in sums[0]]
            with code.loop(
                str(whole * factors.terms), str(last), carried, step=factors.terms, may_be_empty=True
            ) as loop:
                loop.results = add(loop.carried, loop.index, factors.terms)
            sums[0] = loop.results
        if not is_zero(terms - last):
            sums[0] = add(sums[0], str(last), terms - last)
    else:
        for step in range(whole, steps):
            first = step * factors.terms
            sums[step % copies] = add(sums[step % copies], str(first), terms - first)
    addition = "fadd" if factors.element == "float" else "add"
    while len(sums) > 1:
        half = -(-len(sums) // 2)
        pairs = zip(sums, sums[half:], strict=False)
        merged = [
            [v.binary(addition, factors.element, one, other) for one, other in zip(a, b, strict=True)]
            for a, b in pairs
        ]
        sums = merged + sums[len(merged) : half]
    return sums[0]
