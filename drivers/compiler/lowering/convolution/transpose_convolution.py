"""Lowers TRANSPOSE_CONV_2D as a convolution that computes a stride's length of outputs at once.

With stride s, and an output that starts `head` elements into the spread input, output element y
lies at y + head = s·q + p. It sums input[q - t] · weights[s·t + p] over t. That is an ordinary
convolution of stride 1 for each phase p. The phases along height and width become channels of a
single convolution, whose results are then interleaved.

If the stride does not divide the window's extent, the last phases have one weight fewer. Integers
are multiplied by 0 instead. Infinite floats times 0 would be NaN, so floats have a convolution for
the phases with each number of weights, or, where these would have few channels, one for the weights
that all phases have, and one for those that only the first phases have.
"""

from collections.abc import Iterable, Sequence
from functools import partial, reduce
from operator import and_
from typing import Final

from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.graph import Graph, Pair
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.convolution.weighted_sum import ContractionPlan, lower_windows, zeros
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.convolution import transpose_convolution
from neurald.hal.operations.machinery.call import Call

#: Convolutions for phases with equal numbers of weights have at least this many channels.
_MIN_CHANNELS: Final = 16


class AxisConvolution(Struct, frozen=True, kw_only=True):
    """The convolution along one axis of the image.

    Attributes:
        stride: the stride of the operation.
        phases: the phases that it computes.
        taps: the range of t that it sums over.
        head: offset of the output in the spread input.
        first: the first q that is computed.
        positions: number of computed q.
        padding: the padding of the input.
    """

    stride: int
    phases: range
    taps: range
    head: int
    first: int
    positions: int
    padding: Pair

    def tap(self, seen: Expression, phase: Expression) -> Expression:
        """Returns the index of the weight at `seen` in the convolution's window.

        It may exceed the operation's window.

        Args:
            seen: index in the convolution's window.
            phase: the number of a phase among `phases`.
        """
        return (self.taps.stop - 1 - seen) * self.stride + phase + self.phases.start

    def position_and_phase(self, at: Expression) -> tuple[Expression, Expression]:
        """Returns the position of an output element, and the number of its phase among `phases`."""
        spread = at + (self.head - self.first * self.stride)
        return spread // self.stride, spread % self.stride - self.phases.start

    def computes(self, phase: Expression) -> Expression | None:
        """Returns the condition that a phase with this number is computed; None if all are."""
        count = len(self.phases)
        return None if count == self.stride else (phase >= 0) & (phase < count)


def axis_convolution(
    size: int, extent: int, stride: int, head: int, length: int, part: tuple[range, range] | None = None
) -> AxisConvolution:
    """Returns the convolution along an axis.

    Args:
        size: number of input elements.
        extent: the extent of the operation's window.
        stride: the stride of the operation.
        head: offset of the output in the spread input.
        length: number of output elements.
        part: the phases and the range of t that it computes; all by default.
    """
    phases, taps = part or (range(stride), range(-(-extent // stride)))
    # Padding cannot be negative, so elements before the output may be computed and dropped.
    first = min(head // stride, taps.stop - 1)
    positions = (head + length - 1) // stride - first + 1
    before = taps.stop - 1 - first
    return AxisConvolution(
        stride=stride,
        phases=phases,
        taps=taps,
        head=head,
        first=first,
        positions=positions,
        padding=(before, max(0, positions + len(taps) - 1 - before - size)),
    )


def _weights(
    call: Call, builder: Builder, filter_: Value, sides: tuple[AxisConvolution, AxisConvolution]
) -> Value:
    """Returns (phases × channels, taps along height, taps along width, depth).

    Constants are arranged at compile time.
    """
    height, width = sides
    channels, rows, columns, depth = filter_.shape
    across = len(width.phases)
    _, zero = zeros(call)

    def body(channel: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
        phase = channel // channels
        row, column = height.tap(y, phase // across), width.tap(x, phase % across)
        exists = (row < rows) & (column < columns)
        return load(filter_, (channel % channels, row, column, c), exists, zero)

    shape = (len(height.phases) * across * channels, len(height.taps), len(width.taps), depth)
    if filter_.constant is None:
        return builder.compute(shape, body)
    scratch = Graph(inputs=[], outputs=[])
    arranged = Builder(scratch, lambda _: filter_).compute(shape, body)
    (node,) = scratch.nodes
    return builder.constant(evaluate_node(node, {filter_: filter_.constant}), arranged.name)


def both(conditions: Iterable[Expression | None]) -> Expression | None:
    """Returns the condition that all of some hold, of which None always does."""
    known = [each for each in conditions if each is not None]
    return reduce(and_, known) if known else None


class _Part(Struct, frozen=True, kw_only=True):
    """The convolution for some phases along both axes.

    Attributes:
        height, width: along the axes.
        weights: see `_weights`.
    """

    height: AxisConvolution
    width: AxisConvolution
    weights: Value

    @property
    def padding(self) -> tuple[Pair, Pair]:
        """The padding of the images."""
        return self.height.padding, self.width.padding

    def output(self, images: int) -> Shape:
        """Returns the shape of the sums."""
        return images, self.height.positions, self.width.positions, self.weights.shape[0]


def parts_of(extent: int, stride: int, channels: int) -> list[tuple[range, range]]:
    """Returns phases and ranges of t that together are all weights of an axis, and no others."""
    taps, full = -(-extent // stride), extent % stride or stride
    if full == stride:
        return [(range(stride), range(taps))]
    if channels < _MIN_CHANNELS:
        parts = [(range(stride), range(taps - 1)), (range(full), range(taps - 1, taps))]
    else:
        parts = [(range(full), range(taps)), (range(full, stride), range(taps - 1))]
    return [part for part in parts if part[1]]


def _interleaved(builder: Builder, shape: Shape, parts: Sequence[tuple[_Part, Value]]) -> Value:
    """Returns the sums of phases at the places of their output elements, and 0 elsewhere."""
    channels = shape[-1]

    def body(n: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
        total: Expression | None = None
        for part, sums in parts:
            (row, down), (column, across) = (
                part.height.position_and_phase(y),
                part.width.position_and_phase(x),
            )
            place = n, row, column, (down * len(part.width.phases) + across) * channels + c
            found = load(sums, place, both((part.height.computes(down), part.width.computes(across))))
            total = found if total is None else total + found
        assert total is not None  # noqa: S101 - some phases have weights
        return total

    return builder.compute(shape, body)


def plan_transposed(call: Call, builder: Builder) -> ContractionPlan:
    """Plans TRANSPOSE_CONV_2D."""
    window, shape = transpose_convolution.geometry(call)
    images, *lengths, _ = shape
    filter_ = builder.value(call, "filter")
    is_float = filter_.type.is_float and not is_quantized(call.operand("input"))

    def side(axis: int, part: tuple[range, range] | None = None) -> AxisConvolution:
        head, size = window.padding[axis][0], window.output[axis]
        return axis_convolution(size, window.kernel[axis], window.stride[axis], head, lengths[axis], part)

    def sides(axis: int) -> list[AxisConvolution]:
        if not is_float:
            return [side(axis)]
        parts = parts_of(window.kernel[axis], window.stride[axis], shape[-1])
        return [side(axis, part) for part in parts]

    parts = [
        _Part(height=height, width=width, weights=_weights(call, builder, filter_, (height, width)))
        for height in sides(0)
        for width in sides(1)
    ]
    if len(parts) == 1:
        (part,) = parts
        return ContractionPlan(
            weights=part.weights,
            channels=0,
            padding=part.padding,
            contract=partial(builder.convolution, weights=part.weights, output=part.output(images)),
            restore=lambda sums: _interleaved(builder, shape, [(part, sums)]),
        )

    def contract(source: Value, **_: object) -> Value:
        sums = [
            builder.convolution(source, part.weights, output=part.output(images), padding=part.padding)
            for part in parts
        ]
        return _interleaved(builder, shape, list(zip(parts, sums, strict=True)))

    padding = side(0).padding, side(1).padding
    return ContractionPlan(weights=filter_, channels=0, padding=padding, contract=contract)


LOWERINGS: Lowerings = {OperationType.TRANSPOSE_CONV_2D: lower_windows(plan_transposed)}
