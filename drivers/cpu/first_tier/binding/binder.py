"""Binds the operations of a graph to the kernels of the first tier."""

from collections.abc import Callable, Mapping
from typing import Final

from neurald.drivers.cpu.first_tier.binding import products
from neurald.drivers.cpu.first_tier.binding.elements import ELEMENTS
from neurald.drivers.cpu.first_tier.binding.gather import bind_gather, bind_lookup
from neurald.drivers.cpu.first_tier.binding.movement import MOVEMENTS
from neurald.drivers.cpu.first_tier.binding.pooling import bind_pooling
from neurald.drivers.cpu.first_tier.binding.rows import ROWS
from neurald.drivers.cpu.first_tier.binding.scope import BindingScope
from neurald.drivers.cpu.first_tier.bound_call import BoundCall
from neurald.drivers.cpu.first_tier.layout import Tiles
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, Model, Operation, Subgraph
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.validation.shape_inference import bind_operations


class Binder:
    """Binds the operations of a graph.

    Attributes:
        folded: the positions of operations that are computed from constants.

    Args:
        model: the model.
        graph: one of its graphs.
        tiles: of the target.
    """

    def __init__(self, model: Model, graph: Subgraph, tiles: Tiles) -> None:
        self._graph = graph
        self._scope = BindingScope(model, graph, tiles)
        self._bindings = bind_operations(graph)
        self.folded: list[int] = []

    @property
    def known(self) -> Mapping[int, Array]:
        """Values that operations compute from constants, by operand."""
        return self._scope.known

    def bound(self) -> list[list[BoundCall] | None]:
        """Returns the kernels of each operation; None for one that has none.

        Operations on constants are computed, and need none.
        """
        for position, operation in enumerate(self._graph.operations):
            if operation.type in _FOLDED and self._has_known_inputs(operation):
                self._fold(position)
        folded = set(self.folded)
        return [
            [] if position in folded else self._operation(position)
            for position in range(len(self._graph.operations))
        ]

    def _has_known_inputs(self, operation: Operation) -> bool:
        operands = self._graph.operands
        return all(
            self._scope.value(index) is not None
            for index in operation.inputs
            if operands[index].lifetime is not Lifetime.NO_VALUE
        )

    def _operation(self, position: int) -> list[BoundCall] | None:
        operation, operands = self._graph.operations[position], self._graph.operands
        bind = _BINDINGS.get(operation.type)
        if bind is None or any(
            not operands[index].is_fully_specified
            for index in (*operation.inputs, *operation.outputs)
            if operands[index].type.is_tensor and operands[index].lifetime is not Lifetime.NO_VALUE
        ):
            return None
        call = Call(
            self._bindings[position],
            operands,
            lambda index: operands[index].dimensions,
            self._scope.value,
        )
        try:
            DEFINITIONS[operation.type].check(call)
            return bind(self._scope, call)
        except Exception:
            # References report what is wrong with it, if anything.
            return None

    def _fold(self, position: int) -> None:
        """Computes an operation on constants."""
        binding, operands = self._bindings[position], self._graph.operands
        call = Call(binding, operands, lambda index: operands[index].dimensions, self._scope.value)
        try:
            results = DEFINITIONS[binding.type].reference(call)
        except Exception:
            return
        self._scope.known.update(zip(self._graph.operations[position].outputs, results, strict=True))
        self.folded.append(position)


#: Operations that models have between constants and their readers.
_FOLDED: Final = frozenset((*MOVEMENTS, *ELEMENTS, OperationType.DENSIFY))

_BINDINGS: Final[Mapping[OperationType, Callable[[BindingScope, Call], list[BoundCall]]]] = {
    **MOVEMENTS,
    **ELEMENTS,
    **ROWS,
    OperationType.CONV_2D: products.bind_convolution,
    OperationType.TFLITE_CONV_2D: products.bind_convolution,
    OperationType.GROUPED_CONV_2D: products.bind_convolution,
    OperationType.TFLITE_CONV_3D: products.bind_convolution_3d,
    OperationType.TRANSPOSE_CONV_2D: products.bind_transposed_convolution,
    OperationType.TFLITE_TRANSPOSE_CONV: products.bind_transposed_convolution,
    OperationType.DEPTHWISE_CONV_2D: products.bind_depthwise,
    OperationType.TFLITE_DEPTHWISE_CONV_2D: products.bind_depthwise,
    OperationType.FULLY_CONNECTED: products.bind_fully_connected,
    OperationType.TFLITE_FULLY_CONNECTED: products.bind_fully_connected,
    OperationType.BATCH_MATMUL: products.bind_matrix_product,
    OperationType.TFLITE_BATCH_MATMUL: products.bind_matrix_product,
    OperationType.MAX_POOL_2D: bind_pooling,
    OperationType.TFLITE_MAX_POOL_2D: bind_pooling,
    OperationType.AVERAGE_POOL_2D: bind_pooling,
    OperationType.TFLITE_AVERAGE_POOL_2D: bind_pooling,
    OperationType.GATHER: bind_gather,
    OperationType.TFLITE_GATHER: bind_gather,
    OperationType.EMBEDDING_LOOKUP: bind_lookup,
    OperationType.TFLITE_EMBEDDING_LOOKUP: bind_lookup,
}
