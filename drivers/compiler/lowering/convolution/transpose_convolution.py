"""TRANSPOSE_CONV_2D, as a convolution that gives all elements of a stride's length at once.

Where the strides are s and the output begins `head` elements into what the input spreads over, element y of the output
stands at y + head = s·q + p. The weights that lie p beyond a multiple of the stride are what it sees: it sums
input[q - t] · weights[s·t + p] over t. So there is an ordinary convolution, of stride 1, for every p, and all of them, along
height and width, are channels of one, whose results are then put side by side.
"""

from dataclasses import dataclass
from functools import partial

from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.graph import Graph, Pair
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.convolution.weighted_sum import Plan, lower_windows, zeros
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.convolution import transpose_convolution
from neurald.hal.operations.machinery.call import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """The convolution along height or width.

    Attributes:
        stride: of the operation.
        extent: of the operation's window.
        head: where the output begins.
        first: the first q that is computed.
        positions: how many are.
        padding: of the input.
    """

    stride: int
    extent: int
    head: int
    first: int
    positions: int
    padding: Pair

    @property
    def taps(self) -> int:
        """How many weights an element of the output sees, at most."""
        return -(-self.extent // self.stride)

    def tap(self, seen: Expression, phase: Expression) -> Expression:
        """The weight at a place in the convolution's window; beyond the operation's window there is none."""
        return (self.taps - 1 - seen) * self.stride + phase

    def place(self, at: Expression) -> tuple[Expression, Expression]:
        """Position and phase of an element of the output."""
        spread = at + (self.head - self.first * self.stride)
        return spread // self.stride, spread % self.stride


def _side(size: int, extent: int, stride: int, head: int, length: int) -> _Side:
    taps = -(-extent // stride)
    # There is no padding of less than 0 elements: what comes before the output is computed then, and left out.
    first = min(head // stride, taps - 1)
    positions = (head + length - 1) // stride - first + 1
    before = taps - 1 - first
    return _Side(
        stride=stride,
        extent=extent,
        head=head,
        first=first,
        positions=positions,
        padding=(before, max(0, positions + taps - 1 - before - size)),
    )


def _weights(call: Call, builder: Builder, filter_: Value, sides: tuple[_Side, _Side]) -> Value:
    """(phases × channels, taps along height, taps along width, depth); constants right away."""
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


def plan_transposed(call: Call, builder: Builder) -> Plan:
    """TRANSPOSE_CONV_2D."""
    place, shape = transpose_convolution.geometry(call)
    images, *lengths, channels = shape
    sides = [
        _side(
            place.output[axis], place.kernel[axis], place.stride[axis], place.padding[axis][0], lengths[axis]
        )
        for axis in (0, 1)
    ]
    height, width = sides
    weights = _weights(call, builder, builder.value(call, "filter"), (height, width))

    def restore(sums: Value) -> Value:
        def body(n: Expression, y: Expression, x: Expression, c: Expression) -> Expression:
            (row, row_phase), (column, column_phase) = height.place(y), width.place(x)
            return load(sums, (n, row, column, (row_phase * width.stride + column_phase) * channels + c))

        return builder.compute(shape, body)

    output: Shape = (images, height.positions, width.positions, weights.shape[0])
    return Plan(
        weights=weights,
        channels=0,
        padding=(height.padding, width.padding),
        contract=partial(builder.convolution, weights=weights, output=output),
        restore=restore,
    )


LOWERINGS: Lowerings = {OperationType.TRANSPOSE_CONV_2D: lower_windows(plan_transposed)}
