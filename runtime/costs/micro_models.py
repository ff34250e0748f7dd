"""Builds the small models that a calibration runs: one kind of operation each, in several sizes."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType

_F32: Final = OperandType.TENSOR_FLOAT32
_Q8: Final = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
#: How often a product is repeated in a model, so that it takes long compared with the launch. Other
#: operations are not repeated: compilers make one kernel of neighbours.
_PRODUCTS: Final = 4
#: Products of a vector are so short that there must be more of them.
_SMALL_PRODUCTS: Final = 16
_SCALE: Final = 0.5
#: The scale and zero point of LOGISTIC and SOFTMAX, which their definitions fix.
_UNIT_SCALE: Final = 1 / 256
_UNIT_ZERO: Final = -128


class MicroModel(Struct, frozen=True, kw_only=True):
    """A model of several operations of one kind and size.

    Attributes:
        model: the model to prepare; its operations are all of the same kind and work.
        input_bytes, output_bytes: the sizes of its input and of its output.
    """

    model: Model
    input_bytes: int
    output_bytes: int


class _Graph:
    """Collects operands and operations of a model with one input and one output."""

    def __init__(self, kind: OperandType, shape: Sequence[int]) -> None:
        self._kind = kind
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._input = self._last = self._add(self._tensor(shape, Lifetime.SUBGRAPH_INPUT))

    def _add(self, operand: Operand) -> int:
        self._operands.append(operand)
        return len(self._operands) - 1

    def _tensor(
        self, shape: Sequence[int], lifetime: Lifetime, scale: float = _SCALE, zero_point: int = 0
    ) -> Operand:
        is_quantized = self._kind is _Q8
        return Operand(
            type=self._kind,
            dimensions=tuple(shape),
            scale=scale if is_quantized else 0.0,
            zero_point=zero_point if is_quantized else 0,
            lifetime=lifetime,
        )

    def constant(self, shape: Sequence[int]) -> int:
        """Adds a tensor of ones."""
        size = int(np.prod(shape))
        value = np.ones(size, self._kind.dtype).tobytes()
        operand = self._tensor(shape, Lifetime.CONSTANT_COPY)
        return self._add(_with_value(operand, value))

    def bias(self, length: int) -> int:
        """Adds a bias of zeros, which is int32 for quantised operations."""
        if self._kind is _F32:
            return self._add(_with_value(self._tensor((length,), Lifetime.CONSTANT_COPY), bytes(4 * length)))
        return self._add(
            Operand(
                type=OperandType.TENSOR_INT32,
                dimensions=(length,),
                scale=_SCALE * _SCALE,
                lifetime=Lifetime.CONSTANT_COPY,
                value=bytes(4 * length),
            )
        )

    def scalar(self, value: float, kind: OperandType = OperandType.INT32) -> int:
        """Adds a scalar constant."""
        return self._add(
            Operand(type=kind, lifetime=Lifetime.CONSTANT_COPY, value=np.asarray(value, kind.dtype).tobytes())
        )

    def vector(self, values: Sequence[int]) -> int:
        """Adds a constant of type TENSOR_INT32."""
        return self._add(
            Operand(
                type=OperandType.TENSOR_INT32,
                dimensions=(len(values),),
                lifetime=Lifetime.CONSTANT_COPY,
                value=np.asarray(values, np.int32).tobytes(),
            )
        )

    def apply(
        self,
        operation: OperationType,
        parameters: Sequence[int],
        shape: Sequence[int],
        *,
        is_unit: bool = False,
    ) -> None:
        """Adds an operation on the last result.

        Args:
            operation: its type.
            parameters: its other inputs.
            shape: the shape of its result.
            is_unit: whether the result is quantised for values from 0 to 1.
        """
        scale, zero_point = (_UNIT_SCALE, _UNIT_ZERO) if is_unit else (_SCALE, 0)
        result = self._add(self._tensor(shape, Lifetime.TEMPORARY_VARIABLE, scale, zero_point))
        self._operations.append(
            Operation(type=operation, inputs=(self._last, *parameters), outputs=(result,))
        )
        self._last = result

    def build(self) -> MicroModel:
        """Returns the model, whose output is the last result."""
        output = self._operands[self._last]
        self._operands[self._last] = _as_output(output)
        model = Model(
            main=Subgraph(
                operands=tuple(self._operands),
                operations=tuple(self._operations),
                inputs=(self._input,),
                outputs=(self._last,),
            )
        )
        sizes = [
            self._kind.dtype.itemsize * int(np.prod(self._operands[index].dimensions or ()))
            for index in (self._input, self._last)
        ]
        return MicroModel(model=model, input_bytes=sizes[0], output_bytes=sizes[1])


def _with_value(operand: Operand, value: bytes) -> Operand:
    return Operand(
        type=operand.type,
        dimensions=operand.dimensions,
        scale=operand.scale,
        zero_point=operand.zero_point,
        lifetime=operand.lifetime,
        value=value,
    )


def _as_output(operand: Operand) -> Operand:
    return Operand(
        type=operand.type,
        dimensions=operand.dimensions,
        scale=operand.scale,
        zero_point=operand.zero_point,
        lifetime=Lifetime.SUBGRAPH_OUTPUT,
    )


def _convolution(graph: _Graph, size: int, depth: int) -> None:
    filters = graph.constant((depth, 3, 3, depth))
    parameters = [filters, graph.bias(depth), *map(graph.scalar, (1, 1, 1, 0))]
    graph.apply(OperationType.CONV_2D, parameters, (1, size, size, depth))


def _depthwise(graph: _Graph, size: int, depth: int) -> None:
    filters = graph.constant((1, 3, 3, depth))
    parameters = [filters, graph.bias(depth), *map(graph.scalar, (1, 1, 1, 1, 0))]
    graph.apply(OperationType.DEPTHWISE_CONV_2D, parameters, (1, size, size, depth))


def _fully_connected(graph: _Graph, size: int, depth: int) -> None:
    parameters = [graph.constant((depth, depth)), graph.bias(depth), graph.scalar(0)]
    graph.apply(OperationType.FULLY_CONNECTED, parameters, (size, depth))


def _pool(graph: _Graph, size: int, depth: int) -> None:
    # Padding SAME, stride 1, a window of 3 x 3.
    parameters = [*map(graph.scalar, (1, 1, 1, 3, 3, 0))]
    graph.apply(OperationType.AVERAGE_POOL_2D, parameters, (1, size, size, depth))


def _binary(operation: OperationType) -> Callable[[_Graph, int, int], None]:
    def add(graph: _Graph, size: int, depth: int) -> None:
        shape = (1, size, size, depth)
        graph.apply(operation, [graph.constant((depth,)), graph.scalar(0)], shape)

    return add


def _unary(operation: OperationType) -> Callable[[_Graph, int, int], None]:
    def add(graph: _Graph, size: int, depth: int) -> None:
        graph.apply(operation, [], (1, size, size, depth))

    return add


def _unit(operation: OperationType) -> Callable[[_Graph, int, int], None]:
    """Returns how to add an operation whose quantised results have a scale of their own."""

    def add(graph: _Graph, size: int, depth: int) -> None:
        parameters = [graph.scalar(1.0, OperandType.FLOAT32)] if operation is OperationType.SOFTMAX else []
        graph.apply(operation, parameters, (1, size, size, depth), is_unit=True)

    return add


def _transpose(graph: _Graph, size: int, depth: int) -> None:
    graph.apply(OperationType.TRANSPOSE, [graph.vector((0, 2, 1, 3))], (1, size, size, depth))


def _resize(graph: _Graph, size: int, depth: int) -> None:
    lengths = [graph.scalar(2 * size), graph.scalar(2 * size)]
    graph.apply(OperationType.RESIZE_BILINEAR, lengths, (1, 2 * size, 2 * size, depth))


class _Recipe(Struct, frozen=True, kw_only=True):
    """The recipe for the models of one operation type.

    Attributes:
        add: adds the operation to a graph, for a size and a depth.
        sizes: pairs of size and depth, ascending.
        repetitions: how many operations a model has.
        small_repetitions: the same for the smallest size.
        is_matrix: whether its operands are matrices instead of images.
    """

    add: Callable[[_Graph, int, int], None]
    sizes: tuple[tuple[int, int], ...]
    repetitions: int = 1
    small_repetitions: int | None = None
    is_matrix: bool = False


_IMAGES: Final = ((16, 16), (48, 32), (80, 64))

_RECIPES: Final = {
    OperationType.CONV_2D: _Recipe(
        add=_convolution, sizes=((12, 16), (24, 32), (40, 64)), repetitions=_PRODUCTS
    ),
    OperationType.DEPTHWISE_CONV_2D: _Recipe(add=_depthwise, sizes=_IMAGES, repetitions=_PRODUCTS),
    OperationType.FULLY_CONNECTED: _Recipe(
        add=_fully_connected,
        sizes=((1, 256), (8, 512), (32, 768)),
        repetitions=_PRODUCTS,
        small_repetitions=_SMALL_PRODUCTS,
        is_matrix=True,
    ),
    OperationType.ADD: _Recipe(add=_binary(OperationType.ADD), sizes=_IMAGES),
    OperationType.MUL: _Recipe(add=_binary(OperationType.MUL), sizes=_IMAGES),
    OperationType.RELU: _Recipe(add=_unary(OperationType.RELU), sizes=_IMAGES),
    OperationType.LOGISTIC: _Recipe(add=_unit(OperationType.LOGISTIC), sizes=_IMAGES),
    OperationType.SOFTMAX: _Recipe(add=_unit(OperationType.SOFTMAX), sizes=_IMAGES),
    OperationType.AVERAGE_POOL_2D: _Recipe(add=_pool, sizes=_IMAGES),
    OperationType.TRANSPOSE: _Recipe(add=_transpose, sizes=_IMAGES),
    OperationType.RESIZE_BILINEAR: _Recipe(add=_resize, sizes=((8, 16), (24, 32), (48, 64))),
}


def micro_models() -> Iterator[tuple[OperationType, OperandType, list[Callable[[], MicroModel]]]]:
    """Yields the functions that build models by operation and type of operands, smallest first."""
    for kind in (_F32, _Q8):
        for operation, recipe in _RECIPES.items():
            counts = [recipe.small_repetitions or recipe.repetitions, *[recipe.repetitions] * 2]
            builders = [
                _builder(kind, recipe, *sizes, count)
                for sizes, count in zip(recipe.sizes, counts, strict=True)
            ]
            yield operation, kind, builders


def _builder(
    kind: OperandType, recipe: _Recipe, size: int, depth: int, repetitions: int
) -> Callable[[], MicroModel]:
    def build() -> MicroModel:
        graph = _Graph(kind, (size, depth) if recipe.is_matrix else (1, size, size, depth))
        for _ in range(repetitions):
            recipe.add(graph, size, depth)
        return graph.build()

    return build


def moving_models() -> Iterator[Callable[[int], MicroModel]]:
    """Yields functions that build a model of one operation that moves this many elements.

    The first ones compute least. Later ones are for devices that support none of those: many
    support 8 bits only, and some only convolutions.
    """
    for kind in (_F32, _Q8):
        yield partial(_reshaping, kind)
        yield partial(_applying, kind, _binary(OperationType.ADD))
    for kind in (_F32, _Q8):
        yield partial(_applying, kind, _unary(OperationType.RELU))
        yield partial(_applying, kind, _unit(OperationType.LOGISTIC))
        yield partial(_applying, kind, _binary(OperationType.MUL))
        yield partial(_applying, kind, _convolution)


def chained_models(count: int) -> Iterator[Callable[[], MicroModel]]:
    """Yields functions that build a model of a chain of this many operations on one element."""
    for kind in (_F32, _Q8):
        for add in (
            _binary(OperationType.ADD),
            _unary(OperationType.RELU),
            _unit(OperationType.LOGISTIC),
            _binary(OperationType.MUL),
            _convolution,
        ):
            yield partial(_applying, kind, add, 1, count)


def _reshaping(kind: OperandType, elements: int) -> MicroModel:
    graph = _Graph(kind, (1, elements))
    graph.apply(OperationType.RESHAPE, [graph.vector((elements,))], (elements,))
    return graph.build()


def _applying(
    kind: OperandType, add: Callable[[_Graph, int, int], None], elements: int, count: int = 1
) -> MicroModel:
    """Returns a model of operations on an image of one channel, whose size is a power of 4."""
    size = math.isqrt(elements)
    graph = _Graph(kind, (1, size, size, 1))
    for _ in range(count):
        add(graph, size, 1)
    return graph.build()
