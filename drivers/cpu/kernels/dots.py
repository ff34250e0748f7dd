"""Products of few channels with long sums: vectors lie along the terms instead of the channels, and are added up in the end.

Where channels lie along vectors, a few of them leave most of every vector idle. Here an input and the weights of each channel
are read as they are, term after term.
"""

import math
from collections.abc import Sequence
from typing import Protocol

from neurald.drivers.compiler.ir.graph import Value
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu import memory
from neurald.drivers.cpu.epilogue import epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.counters import address, each_grain, multiple, total
from neurald.drivers.cpu.kernels.flattened import flattened
from neurald.drivers.cpu.kernels.function import arguments_with, cost_ns, function_text
from neurald.drivers.cpu.kernels.lanes import added
from neurald.drivers.cpu.kernels.product import Product
from neurald.drivers.cpu.routine import Routine
from neurald.drivers.cpu.target import Target
from neurald.drivers.cpu.vector import Vector

#: Channels whose sums are computed side by side, and sums that a processor works on at once.
_CHANNELS = 4
_SUMS_IN_FLIGHT = 8
#: What adding up a vector of sums takes, and storing a result.
_END_CYCLES = 12.0
#: What a vector of channels takes for every term and position.
_TERM_CYCLES = 0.8


class Factors(Protocol):
    """What is multiplied, and how: for one type of inputs and weights.

    Attributes:
        terms: of a vector of inputs.
        element: the LLVM type of sums.
        lanes: of a vector of sums.
        row_bytes: how far the weights of neighbouring channels are apart.
    """

    terms: int
    element: str
    lanes: int
    row_bytes: int

    def inputs(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """The inputs from a term on, `count` of them, as they are multiplied.

        Args:
            code: where instructions go.
            pointer: the name of where the input is.
            first: the number of the first term.
            count: how many terms are left, or more.
        """

    def weights(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """The same of the weights of a channel."""

    def step(self, code: Instructions, totals: str, inputs: str, weights: str) -> str:
        """The sums after another vector of terms."""

    def end(self, code: Instructions, total: str, channel: int) -> str:
        """The result of a channel from the sum of its products."""


class FloatFactors:
    """FLOAT32; terms of a channel follow one another.

    Args:
        target: what code is for.
        terms: of a sum.
    """

    element = "float"
    weight_bytes = 4

    def __init__(self, target: Target, terms: int) -> None:
        self.terms = self.lanes = target.lanes(self.weight_bytes)
        self.row_bytes = terms * self.weight_bytes
        self._target = target

    def inputs(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """See `Factors`. What is no term counts as 0: inputs may be infinite."""
        v = Vector(code, self._target, self.lanes)
        if count >= self.terms:
            return memory.load(v, self.element, pointer, first)
        mask = v.numbers("i1", [lane < count for lane in range(self.lanes)])
        return memory.masked_load(v, self.element, pointer, first, mask)

    def weights(self, code: Instructions, pointer: str, first: str, count: int) -> str:
        """See `Factors`."""
        return self.inputs(code, pointer, first, count)

    def step(self, code: Instructions, totals: str, inputs: str, weights: str) -> str:
        """See `Factors`."""
        return Vector(code, self._target, self.lanes).fma("float", inputs, weights, totals)

    def end(self, code: Instructions, total: str, channel: int) -> str:
        """See `Factors`."""
        return total


def is_plain(product: Product) -> bool:
    """Whether the inputs of every sum follow one another, and so do its weights, where these are the same everywhere."""
    taps = product.rows.taps * product.columns.taps
    return (
        taps == 1
        and product.rows.is_inside
        and product.columns.is_inside
        and all(part.extent == 1 for part in product.parts)
        and product.element_bytes == product.type.size_bytes
    )


def cycles_of(product: Product, vector_terms: int) -> float:
    """What all sums take, about."""
    each = product.terms / vector_terms + _END_CYCLES
    return product.positions * product.channels * each


def float_routine(kernel: Kernel, product: Product, target: Target) -> Routine | None:
    """The routine of a kernel whose contraction is a product in FLOAT32; None where channels are better along vectors.

    Args:
        kernel: with an output that is not empty.
        product: its contraction, of at least one term.
        target: what the code is for.
    """
    operand = product.weights
    is_float = product.type is operand.value.type is Scalar.FLOAT32
    if not is_float or not is_plain(product) or operand.term_step != 1:
        return None
    lanes = target.lanes(FloatFactors.weight_bytes)
    cycles = cycles_of(product, lanes)
    if product.channels >= lanes or cycles > product.positions * product.terms * _TERM_CYCLES:
        return None
    factors = FloatFactors(target, product.terms)
    arguments = arguments_with(kernel, (product.source, operand.value))
    return routine(kernel, product, target, factors, (operand.value, arguments), cycles, "")


def routine(
    kernel: Kernel,
    product: Product,
    target: Target,
    factors: Factors,
    read: tuple[Value, Sequence[Value]],
    cycles: float,
    label: str,
) -> Routine:
    """The routine of a kernel.

    Args:
        kernel: with an output that is not empty.
        product: its contraction, see `is_plain`.
        target: what the code is for.
        factors: what is multiplied.
        read: the weights as they are read, and all arguments of the function.
        cycles: see `cycles_of`.
        label: for people: of what kind the factors are.
    """
    weights, arguments = read
    code = Instructions(parameter_names(arguments))
    names = pointer_names(arguments)
    extents = (product.images, product.rows.places, product.columns.places)
    kernel, v = flattened(kernel), Vector(code, target, factors.lanes)
    with each_grain(code, extents) as (position, _):
        image, row, column = position
        source = address(
            code,
            names[product.source],
            multiple(code, image, product.image_bytes),
            multiple(code, row, product.rows.stride * product.row_bytes),
            multiple(code, column, product.columns.stride * product.pixel_bytes),
        )
        place = total(
            code,
            multiple(code, image, product.rows.places * product.columns.places),
            multiple(code, row, product.columns.places),
            column,
        )
        for first in range(0, product.channels, _CHANNELS):
            channels = range(first, min(first + _CHANNELS, product.channels))
            sums = _sums(code, target, factors, product.terms, source, (names[weights], channels))
            for channel, each in zip(channels, sums, strict=True):
                result = factors.end(code, added(v, factors.element, each), channel)
                epilogue(kernel, target, code, result, (place, str(channel)), 1, pointers=names)
    return Routine(
        text=function_text(code, arguments),
        arguments=tuple(arguments),
        grains=math.prod(extents),
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        label=f"{label}{factors.terms} terms at once, {min(_CHANNELS, product.channels)} channels",
        operations=kernel.operations,
    )


def _sums(
    code: Instructions,
    target: Target,
    factors: Factors,
    terms: int,
    source: str,
    read: tuple[str, Sequence[int]],
) -> list[str]:
    """A vector of sums for each of some channels, see `Factors`."""
    weights, channels = read
    v, count = Vector(code, target, factors.lanes), len(channels)
    steps = -(-terms // factors.terms)
    turns = max(1, min(_SUMS_IN_FLIGHT // count, steps))
    rows = [address(code, weights, str(channel * factors.row_bytes)) for channel in channels]

    def add(sums: Sequence[str], first: str, left: int) -> list[str]:
        inputs = factors.inputs(code, source, first, left)
        return [
            factors.step(code, each, inputs, factors.weights(code, row, first, left))
            for each, row in zip(sums, rows, strict=True)
        ]

    sums = [[v.number(factors.element, 0)] * count for _ in range(turns)]
    # The last terms may not fill a vector.
    whole = terms // factors.terms // turns * turns
    if whole > turns:
        carried = [(v.type(factors.element), each) for turn in sums for each in turn]
        with code.loop("0", str(whole * factors.terms), carried, step=turns * factors.terms) as loop:
            loop.results = [
                each
                for turn in range(turns)
                for each in add(
                    loop.carried[turn * count : (turn + 1) * count],
                    total(code, loop.index, str(turn * factors.terms)),
                    factors.terms,
                )
            ]
        sums = [loop.results[turn * count : (turn + 1) * count] for turn in range(turns)]
    else:
        whole = 0
    for step in range(whole, steps):
        first = step * factors.terms
        sums[step % turns] = add(sums[step % turns], str(first), terms - first)
    addition = "fadd" if factors.element == "float" else "add"
    while len(sums) > 1:
        half = -(-len(sums) // 2)
        pairs = zip(sums, sums[half:], strict=False)
        merged = [
            [v.two(addition, factors.element, one, other) for one, other in zip(a, b, strict=True)]
            for a, b in pairs
        ]
        sums = merged + sums[len(merged) : half]
    return sums[0]
