"""Appends nodes to a graph. This is the interface that lowerings use."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.algorithm import Algorithm, Scatter
from neurald.drivers.compiler.ir.complex_numbers import is_complex
from neurald.drivers.compiler.ir.expression import Axis, Expression, axis, load
from neurald.drivers.compiler.ir.extents.extent import has_extents, highest, is_one, surely_lowest
from neurald.drivers.compiler.ir.graph import (
    MAX_PADDINGS,
    Compute,
    Convolution,
    DepthwiseConvolution,
    Graph,
    MatrixProduct,
    Node,
    Pair,
    Procedure,
    RowLimit,
    TopK,
    delinearize,
    linearize,
)
from neurald.drivers.compiler.ir.op import Number, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.hal.model.graph import Operand
from neurald.hal.operations.machinery.broadcasting import broadcast_shapes
from neurald.hal.operations.machinery.call import Call
from neurald.hal.records import replace

#: Returns the element at an index, which is given as one expression per dimension.
Body = Callable[..., Expression]


class Unsupported(Exception):
    """An operation cannot be lowered; the message says why. It is not raised outside of drivers."""


class Limit(Struct, frozen=True, kw_only=True):
    """The number of rows of a value that exist; its shape is an upper bound.

    Rows that do not exist have any contents. They are the last ones in row-major order, because the
    dimensions before that of the rows have length 1.

    Attributes:
        dimension: the dimension of the rows.
        bound: its length in the value's shape.
        count: INT32 (), the number of rows that exist.
    """

    dimension: int
    bound: int
    count: Value


def _is_various(pair: Pair) -> bool:
    """Returns True if a padding is one of more than `MAX_PADDINGS`."""
    return any(highest(each) - surely_lowest(each) >= MAX_PADDINGS for each in pair)


class Builder:
    """Appends nodes to a graph.

    Attributes:
        limit: the limit of the rows for which requirements must hold; None if all exist.

    Args:
        graph: the graph to extend.
        value_of: returns the value of the operand with an index.
    """

    def __init__(self, graph: Graph, value_of: Callable[[int], Value]) -> None:
        self._graph = graph
        self._value_of = value_of
        self._operation = 0
        self.limit: Limit | None = None

    @property
    def position(self) -> int:
        """The position of the operation that is lowered."""
        return self._operation

    def begin(self, operation: int) -> None:
        """Attributes the nodes that follow to the model's operation at this position."""
        self._operation = operation

    def with_values(self, value_of: Callable[[int, Callable[[int], Value]], Value]) -> "Builder":
        """Returns a builder of the same operation with other values of operands.

        Args:
            value_of: returns the value of an operand, given what returns its value here.
        """
        given = self._value_of
        other = Builder(self._graph, lambda index: value_of(index, given))
        other.limit = self.limit
        other.begin(self._operation)
        return other

    def value(self, call: Call, name: str) -> Value:
        """Returns the value of an input.

        Raises:
            Unsupported: the operand holds complex numbers; only `pairs` returns those.
        """
        _require_real(call.operand(name))
        return self._value_of(call.index(name))

    def values(self, call: Call, name: str) -> tuple[Value, ...]:
        """Returns the values of a variadic input; see `value`."""
        for operand in call.operands(name):
            _require_real(operand)
        return tuple(self._value_of(each) for each in call.indexes(name))

    def pairs(self, call: Call, name: str) -> Value:
        """Returns a complex input as FLOAT32 pairs along a new last dimension."""
        return self._value_of(call.index(name))

    def constant(self, array: np.ndarray, name: str = "") -> Value:
        """Returns an array as a constant value."""
        contiguous = np.ascontiguousarray(array).reshape(np.shape(array))
        return Value(contiguous.shape, Scalar.of(contiguous.dtype), contiguous, name)

    def compute(
        self,
        shape: Shape,
        body: Body,
        requirements: Callable[..., Sequence[tuple[Expression, str]]] | None = None,
        *,
        is_stored: bool = False,
    ) -> Value:
        """Appends a `Compute` with the elements `body(*index)`; its type is that of the body.

        Args:
            shape: the shape of the value.
            body: called once, with an INDEX expression for each dimension.
            requirements: returns the conditions that must hold at an index, each with its error
                message.
            is_stored: see `Compute`.
        """
        axes = tuple(axis(length, f"i{dimension}") for dimension, length in enumerate(shape))
        element = body(*axes)
        required = tuple(requirements(*axes)) if requirements else ()
        if required and self.limit is not None:
            is_absent = ~_exists(self.limit, axes, shape)
            required = tuple((is_absent | condition, text) for condition, text in required)
        return self._append(
            Compute(
                output=Value(shape, element.type),
                axes=axes,
                body=element,
                requirements=required,
                operations=(self._operation,),
                is_stored=is_stored,
            )
        )

    def restrict(self, value: Value, limit: Limit) -> None:
        """Computes only the rows of a value that exist, if an expression computes it.

        Nothing else may read the other rows.
        """
        for position in range(len(self._graph.nodes) - 1, -1, -1):
            node = self._graph.nodes[position]
            if node.output is value:
                if isinstance(node, Compute) and limit.bound:
                    rows = RowLimit(count=limit.count, bound=limit.bound)
                    self._graph.nodes[position] = replace(node, limit=rows)
                return

    def reshape(self, value: Value, shape: Shape) -> Value:
        """Returns the value with another shape of the same number of elements."""
        if value.shape == shape:
            return value
        return self.compute(shape, lambda *at: load(value, delinearize(linearize(at, shape), value.shape)))

    def convolution(
        self,
        source: Value,
        weights: Value,
        *,
        output: Shape,
        type: Scalar = Scalar.FLOAT32,  # noqa: A002 - the field's name
        stride: Pair = (1, 1),
        dilation: Pair = (1, 1),
        padding: tuple[Pair, Pair] = ((0, 0), (0, 0)),
        groups: int = 1,
        input_zero: int = 0,
        weights_zero: int = 0,
    ) -> Value:
        """Appends a `Convolution`; see `_padded` for padding that depends on lengths."""
        source, padding = self._padded(source, padding, input_zero)
        return self._append(
            Convolution(
                output=Value(output, type),
                input=source,
                weights=weights,
                stride=stride,
                dilation=dilation,
                padding=padding,
                groups=groups,
                input_zero=input_zero,
                weights_zero=weights_zero,
                operations=(self._operation,),
            )
        )

    def depthwise_convolution(
        self,
        source: Value,
        weights: Value,
        *,
        output: Shape,
        type: Scalar = Scalar.FLOAT32,  # noqa: A002 - the field's name
        stride: Pair = (1, 1),
        dilation: Pair = (1, 1),
        padding: tuple[Pair, Pair] = ((0, 0), (0, 0)),
        input_zero: int = 0,
        weights_zero: int = 0,
    ) -> Value:
        """Appends a `DepthwiseConvolution`; see `_padded` for padding that depends on lengths."""
        source, padding = self._padded(source, padding, input_zero)
        return self._append(
            DepthwiseConvolution(
                output=Value(output, type),
                input=source,
                weights=weights,
                stride=stride,
                dilation=dilation,
                padding=padding,
                input_zero=input_zero,
                weights_zero=weights_zero,
                operations=(self._operation,),
            )
        )

    def _padded(
        self, source: Value, padding: tuple[Pair, Pair], fill: int
    ) -> tuple[Value, tuple[Pair, Pair]]:
        """Pads images along dimensions whose padding depends on lengths in too many ways.

        Returns:
            The images, and the padding that is left.
        """
        opened = tuple(pair if _is_various(pair) else (0, 0) for pair in padding)
        if not any(map(has_extents, opened)):
            return source, padding
        images, height, width, channels = source.shape
        (top, bottom), (left, right) = opened

        def body(image: Expression, row: Expression, column: Expression, channel: Expression) -> Expression:
            row, column = row - top, column - left
            is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            return load(source, (image, row, column, channel), is_inside, fill)

        shape = images, top + height + bottom, left + width + right, channels
        left_over = tuple((0, 0) if _is_various(pair) else pair for pair in padding)
        return self.compute(shape, body), (left_over[0], left_over[1])

    def matrix_product(
        self,
        left: Value,
        right: Value,
        *,
        type: Scalar = Scalar.FLOAT32,  # noqa: A002 - the field's name
        left_transposed: bool = False,
        right_transposed: bool = False,
        left_zero: int = 0,
        right_zero: int = 0,
    ) -> Value:
        """Appends a `MatrixProduct`."""
        rows = left.shape[-1 if left_transposed else -2]
        columns = right.shape[-1 if right_transposed else -2]
        batches = broadcast_shapes(left.shape[:-2], right.shape[:-2])
        return self._append(
            MatrixProduct(
                output=Value((*batches, rows, columns), type),
                left=left,
                right=right,
                left_transposed=left_transposed,
                right_transposed=right_transposed,
                left_zero=left_zero,
                right_zero=right_zero,
                operations=(self._operation,),
            )
        )

    def top_k(self, source: Value, count: int, *, prefers_lower_index: bool) -> Value:
        """Appends a `TopK` of `count` elements per row."""
        return self._append(
            TopK(
                output=Value((*source.shape[:-1], count), Scalar.INT32),
                input=source,
                prefers_lower_index=prefers_lower_index,
                operations=(self._operation,),
            )
        )

    def procedure(
        self,
        algorithm: Algorithm,
        *inputs: Value,
        output: Shape,
        type: Scalar = Scalar.INT32,  # noqa: A002 - the field's name
    ) -> Value:
        """Appends a `Procedure`."""
        return self._append(
            Procedure(
                output=Value(output, type),
                inputs=inputs,
                algorithm=algorithm,
                operations=(self._operation,),
            )
        )

    def scatter(
        self,
        destinations: Value,
        updates: Value,
        *,
        output: Shape,
        reduction: ReductionOp | None = None,
        initial: Number = 0,
        base: Value | None = None,
    ) -> Value:
        """Scatters updates, one for each destination, to the parts of a value.

        Args:
            destinations: (count,), offsets of parts in row-major order, in parts. Those outside of
                the output are ignored.
            updates: (count, …); the elements of an update are those of a part.
            output: the shape of the value, which consists of such parts.
            reduction: combines updates with equal destinations in order; None takes the last one.
            initial: the elements to which nothing is scattered, if `base` is None.
            base: the value to which the updates are scattered.
        """
        (count,) = destinations.shape
        width = math.prod(updates.shape[1:])
        rows = math.prod(output) // width if width else 0
        given = () if base is None else (self.reshape(base, (rows, width)),)
        result = self.procedure(
            Scatter(reduction=reduction, initial=initial),
            destinations,
            self.reshape(updates, (count, width)),
            *given,
            output=(rows, width),
            type=updates.type,
        )
        return self.reshape(result, output)

    def _append(self, node: Node) -> Value:
        self._graph.nodes.append(node)
        return node.output


def _exists(limit: Limit, at: Sequence[Expression], shape: Shape) -> Expression:
    """Returns a BOOL that is true for elements of rows that exist.

    Raises:
        Unsupported: the elements of this shape are not divided into those rows.
    """
    count = math.prod(shape)
    if not limit.bound or count % limit.bound:
        raise Unsupported(f"{count} elements do not belong to at most {limit.bound} rows")
    row = linearize(at, shape) // (count // limit.bound)
    return row < load(limit.count, ()).to(Scalar.INDEX)


def _require_real(operand: Operand) -> None:
    if is_complex(operand.type):
        raise Unsupported("complex numbers have no kernel")


def broadcast(value: Value, indices: Sequence[Expression]) -> Expression:
    """Loads the element that broadcasts to an index by NumPy's rules."""
    trailing = indices[len(indices) - len(value.shape) :]
    return load(
        value,
        tuple(
            index * 0 if is_one(length) else index
            for index, length in zip(trailing, value.shape, strict=True)
        ),
    )


def reduction_axes(shape: Shape, dimensions: Sequence[int]) -> dict[int, Axis]:
    """Creates reduction axes, keyed by dimension."""
    return {dimension: axis(shape[dimension], f"r{dimension}") for dimension in dimensions}
