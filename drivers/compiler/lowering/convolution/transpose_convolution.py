"""Lowers TRANSPOSE_CONV_2D as a convolution that computes a stride's length of outputs at once.

With stride s, and an output that starts `head` elements into the spread input, output element y
lies at y + head = s·q + p. It sums input[q - t] · weights[s·t + p] over t. That is an ordinary
convolution of stride 1 for each phase p. The phases along height and width become channels of a
single convolution, whose results are then interleaved.
"""

from functools import partial

from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.graph import Graph, Pair
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.convolution.weighted_sum import ContractionPlan, lower_windows, zeros
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.convolution import transpose_convolution
from neurald.hal.operations.machinery.call import Call


class AxisConvolution(Struct, frozen=True, kw_only=True):
    """The convolution along one axis of the image.

    Attributes:
        stride: the stride of the operation.
        extent: the extent of the operation's window.
        head: offset of the output in the spread input.
        first: the first q that is computed.
        positions: number of computed q.
        padding: the padding of the input.
    """

    stride: int
    extent: int
    head: int
    first: int
    positions: int
    padding: Pair

    @property
    def taps(self) -> int:
        """Maximum number of weights per output element."""
        return -(-self.extent // self.stride)

    def tap(self, seen: Expression, phase: Expression) -> Expression:
        """Returns the index of the weight at `seen` in the convolution's window.

        It may exceed the operation's window.
        """
        return (self.taps - 1 - seen) * self.stride + phase

    def position_and_phase(self, at: Expression) -> tuple[Expression, Expression]:
        """Returns the position and phase of an output element."""
        spread = at + (self.head - self.first * self.stride)
        return spread // self.stride, spread % self.stride


def axis_convolution(size: int, extent: int, stride: int, head: int, length: int) -> AxisConvolution:
    """Returns the convolution along an axis.

    Args:
        size: number of input elements.
        extent: the extent of the operation's window.
        stride: the stride of the operation.
        head: offset of the output in the spread input.
        length: number of output elements.
    """
    taps = -(-extent // stride)
    # Padding cannot be negative, so elements before the output may be computed and dropped.
    first = min(head // stride, taps - 1)
    positions = (head + length - 1) // stride - first + 1
    before = taps - 1 - first
    return AxisConvolution(
        stride=stride,
        extent=extent,
        head=head,
        first=first,
        positions=positions,
        padding=(before, max(0, positions + taps - 1 - before - size)),
    )


def _weights(
    call: Call, builder: Builder, filter_: Value, sides: tuple[AxisConvolution, AxisConvolution]
) -> Value:
    """Returns (phases × channels, taps along height, taps along width, depth).

    Constants are arranged at compile time.
    """
    height, width = sides
    channels, rows, columns, depth = filter_.shape
    _, zero = zeros(call)

    def body(channel: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
        phase = channel // channels
        row, column = height.tap(y, phase // width.stride), width.tap(x, phase % width.stride)
        exists = (row < rows) & (column < columns)
        return load(filter_, (channel % channels, row, column, c), exists, zero)

    shape = (height.stride * width.stride * channels, height.taps, width.taps, depth)
    if filter_.constant is None:
        return builder.compute(shape, body)
    scratch = Graph(inputs=[], outputs=[])
    arranged = Builder(scratch, lambda _: filter_).compute(shape, body)
    (node,) = scratch.nodes
    return builder.constant(evaluate_node(node, {filter_: filter_.constant}), arranged.name)


def plan_transposed(call: Call, builder: Builder) -> ContractionPlan:
    """Plans TRANSPOSE_CONV_2D."""
    window, shape = transpose_convolution.geometry(call)
    images, *lengths, channels = shape
    sides = [
        axis_convolution(
            window.output[axis],
            window.kernel[axis],
            window.stride[axis],
            window.padding[axis][0],
            lengths[axis],
        )
        for axis in (0, 1)
    ]
    height, width = sides
    weights = _weights(call, builder, builder.value(call, "filter"), (height, width))

    def restore(sums: Value) -> Value:
        def body(n: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
            (row, row_phase), (column, column_phase) = (
                height.position_and_phase(y),
                width.position_and_phase(x),
            )
            return load(sums, (n, row, column, (row_phase * width.stride + column_phase) * channels + c))

        return builder.compute(shape, body)

    output: Shape = (images, height.positions, width.positions, weights.shape[0])
    return ContractionPlan(
        weights=weights,
        channels=0,
        padding=(height.padding, width.padding),
        contract=partial(builder.convolution, weights=weights, output=output),
        restore=restore,
    )


LOWERINGS: Lowerings = {OperationType.TRANSPOSE_CONV_2D: lower_windows(plan_transposed)}
