"""Computes shapes, and values that follow from them, before a graph runs.

Models compute lengths from the shapes of their inputs, and give other operands shapes by them. Once
the shapes of the inputs are known, these operations are computed here, one after another.
"""

import logging
import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType as T
from neurald.hal.model.types import Lifetime, byte_size
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.working_memory import is_inflated
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import LazyBindings, merge

_LOG: Final = logging.getLogger(__name__)

#: Operations whose results follow from the shape of the input alone.
_OF_SHAPES: Final = frozenset((T.TFLITE_SHAPE, T.TFLITE_RANK))
#: Limit of the number of elements of integers that are computed, beside those of `kinds`.
_MAX_ELEMENTS: Final = 1 << 16


class Folding:
    """Computes what is known of a graph.

    Args:
        model: the model.
        graph: one of its graphs.
        bindings: the bindings of the graph's operations, of which few are read.
        kinds: operations that are computed whatever they compute; of others, integers are.
        is_known: True if the lengths of all dimensions are known, so that those of 0 are empty.

    Attributes:
        operands: the operands of the graph, with the dimensions that are known.
        known: values that operations compute from constants, by operand.
        folded: the positions of these operations.
        contradicted: the positions of operations whose results have other shapes than the model
            declares, or that do not take their inputs.
    """

    def __init__(
        self,
        model: Model,
        graph: Subgraph,
        bindings: LazyBindings,
        kinds: frozenset[T],
        *,
        is_known: bool = False,
    ) -> None:
        self._is_known = is_known
        self.operands: list[Operand] = list(graph.operands)
        self.known: dict[int, Array] = {}
        self.folded: list[int] = []
        self.contradicted: set[int] = set()
        self._given = graph.operands
        self._model, self._kinds = model, kinds
        self._values: dict[int, Array | None] = {}
        #: Whether more is known of any operand than the model has.
        self._knows_more = False
        for position, operation in enumerate(graph.operations):
            may_fold = self._may_fold(operation)
            has_learned = self._knows_more and self._has_learned(operation)
            # What the model has as constants and as shapes is checked already.
            if not may_fold and not has_learned and self._are_specified(operation.outputs):
                continue
            call = Call(
                bindings[position], self.operands, self._shape, self.value, referenced=model.referenced
            )
            if may_fold and self._fold(operation, call):
                self.folded.append(position)
            elif not self._infer(operation, call):
                self.contradicted.add(position)

    def graph(self, graph: Subgraph) -> Subgraph:
        """Returns the graph with the dimensions that are known."""
        changed = any(one is not other for one, other in zip(self.operands, graph.operands, strict=True))
        return replace(graph, operands=tuple(self.operands)) if changed else graph

    def value(self, index: int) -> Array | None:
        """Returns the value of an operand that is known."""
        if index not in self._values:
            self._values[index] = self._model.constant(self.operands[index])
        return self._values[index]

    def _shape(self, index: int) -> Shape | None:
        operand = self.operands[index]
        return operand.dimensions if self._is_specified(operand) else None

    def _is_specified(self, operand: Operand) -> bool:
        return operand.is_fully_specified or (self._is_known and operand.dimensions is not None)

    def _are_specified(self, indexes: Sequence[int]) -> bool:
        return all(self._is_specified(self.operands[index]) for index in indexes)

    def _has_learned(self, operation: Operation) -> bool:
        """Returns True if more is known of an operation's inputs than the model has."""
        return any(
            index in self.known or self.operands[index] is not self._given[index]
            for index in operation.inputs
        )

    def _may_fold(self, operation: Operation) -> bool:
        """Returns True if nothing but constants decides the results."""
        if operation.type in _OF_SHAPES:
            return self._are_specified(operation.inputs)
        if operation.type not in self._kinds and not self._are_integers(operation):
            return False
        for index in operation.inputs:
            if self.operands[index].lifetime is not Lifetime.NO_VALUE and self.value(index) is None:
                return False
        return True

    def _are_integers(self, operation: Operation) -> bool:
        """Returns True if an operation of integers to integers always gives the same results."""
        if not operation.inputs:
            return False
        for index in (*operation.inputs, *operation.outputs):
            operand = self.operands[index]
            kind = operand.type
            if kind.is_tensor and operand.lifetime is not Lifetime.NO_VALUE and kind.dtype.kind not in "iub":
                return False
        definition = DEFINITIONS.get(operation.type)
        return definition is not None and not definition.is_random

    def _fold(self, operation: Operation, call: Call) -> bool:
        """Computes an operation; returns False if that is not possible."""
        definition = DEFINITIONS[operation.type]
        try:
            shapes = definition.output_shapes(call)
            if operation.type not in self._kinds and sum(map(math.prod, shapes)) > _MAX_ELEMENTS:
                return False
            kinds = [self.operands[index].type for index in operation.outputs]
            size_bytes = sum(map(byte_size, kinds, shapes))
            values = map(self.value, operation.inputs)
            if is_inflated(size_bytes, [value for value in values if value is not None]):
                return False
            results = definition.reference(call)
        except Exception:
            # References report what is wrong with it, if anything.
            _LOG.debug("%s is not computed in advance", operation.type.name, exc_info=True)
            return False
        arrays = [np.asarray(result) for result in results]
        if not self._agree(operation, [array.shape for array in arrays]):
            return False
        for index, array in zip(operation.outputs, arrays, strict=True):
            self.known[index] = self._values[index] = array
            self._knows_more = True
            self._set_shape(index, array.shape)
        return True

    def _infer(self, operation: Operation, call: Call) -> bool:
        """Notes the known shapes of the results; returns False if they are wrong."""
        definition = DEFINITIONS.get(operation.type)
        if definition is None:
            return True
        try:
            shapes = definition.output_shapes(call)
        except UnknownValue:
            return True
        except BadData:
            return False
        if not self._agree(operation, shapes):
            return False
        for index, shape in zip(operation.outputs, shapes, strict=True):
            self._set_shape(index, shape)
        return True

    def _agree(self, operation: Operation, shapes: Sequence[Shape]) -> bool:
        """Returns True if results have the shapes that the model declares."""
        try:
            for index, shape in zip(operation.outputs, shapes, strict=True):
                merge(self.operands[index].dimensions, shape, "a result")
        except BadData:
            return False
        return True

    def _set_shape(self, index: int, shape: Shape) -> None:
        """Notes the shape of an operand that has none."""
        operand = self.operands[index]
        if not operand.is_fully_specified and 0 not in shape:
            self.operands[index] = replace(operand, dimensions=tuple(map(int, shape)))
            self._knows_more = True
