"""Stores lists to which loops append elements with the growing dimension first.

A concatenation along an inner dimension, such as that of the positions in a key-value cache of
several heads, moves every element of the list: its rows become longer. If the variables that hold
the list have the growing dimension first, new elements follow those that the list has, and
`list_appends` stores them in place. Other operations read a transposition of the list, which is
fused into their kernels, as is that of appended elements.

This is done if the variables are only written by copies and such concatenations, and if enough
elements stay together for kernels to read them in vectors.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import CONCATENATIONS
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    BasicBlock,
    Branch,
    Copy,
    Item,
    StructuredModel,
    Update,
    WhileLoop,
    each_item,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, is_one
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.concatenation import concatenation_axis
from neurald.hal.records import replace

#: Least number of elements that stay together.
_MIN_TOGETHER: Final = 8
_VARIABLES = (Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE)


def grow_outermost(structured: StructuredModel) -> StructuredModel:
    """Returns the model with the growing dimension of lists first."""
    appends = list({each.position: each for each in _Appends(structured).found()}.values())
    layouts = _Layouts(structured, appends)
    return layouts.result() if layouts.axes else structured


class _Append(Struct, frozen=True, kw_only=True):
    """A concatenation in a loop along an inner dimension.

    Attributes:
        position: the position of the operation.
        axis: the dimension.
        source, target: its first input, and its result.
        parts: the other inputs.
        axis_operand: the operand with the dimension.
    """

    position: int
    axis: int
    source: int
    parts: tuple[int, ...]
    target: int
    axis_operand: int


class _Appends:
    """Finds concatenations in loops."""

    def __init__(self, structured: StructuredModel) -> None:
        self._structured = structured
        self._operands = structured.model.main.operands

    def found(self) -> Iterator[_Append]:
        for item in each_item(self._structured.items):
            if isinstance(item, WhileLoop):
                for each in each_item(item.body):
                    if isinstance(each, BasicBlock):
                        for position in each.operations:
                            append = self._append(position)
                            if append is not None:
                                yield append

    def _shape(self, index: int) -> tuple[int, ...]:
        return self._operands[index].dimensions or ()

    def _append(self, position: int) -> _Append | None:
        graph, model = self._structured.model.main, self._structured.model
        operation = graph.operations[position]
        if operation.type not in CONCATENATIONS:
            return None
        call = Call(
            DEFINITIONS[operation.type].bind(operation, self._operands),
            self._operands,
            self._shape,
            lambda index: model.constant(self._operands[index]),
        )
        axis, (first, *parts) = concatenation_axis(call), call.indexes("inputs")
        shape = self._shape(first)
        together = math.prod(shape[axis + 1 :])
        if all(map(is_one, shape[:axis])) or isinstance(together, Extent) or together < _MIN_TOGETHER:
            return None
        if any(index in self._structured.values for index in (first, *parts)):
            return None
        return _Append(
            position=position,
            axis=axis,
            source=first,
            parts=tuple(parts),
            target=operation.outputs[0],
            axis_operand=call.index("axis"),
        )


class _Layouts:
    """Changes the layout of variables.

    Args:
        structured: the model.
        appends: the concatenations that may append.

    Attributes:
        axes: the growing dimension of each variable that gets another layout.
    """

    def __init__(self, structured: StructuredModel, appends: Sequence[_Append]) -> None:
        self._structured = structured
        self._graph = structured.model.main
        self._operands = list(self._graph.operands)
        self._operations = list(self._graph.operations)
        self._origins, self._graphs = list(structured.origins), list(structured.graphs)
        self._copies = [each for each in each_item(structured.items) if isinstance(each, Copy)]
        self.axes: dict[int, int] = {}
        self._appends: dict[int, _Append] = {}
        #: The variables with the growing dimension first.
        self._first: dict[int, int] = {}
        written = self._written_otherwise({each.position for each in appends})
        for append in appends:
            family = self._family(append, written)
            if append.source in family:
                self.axes.update(dict.fromkeys(family, append.axis))
        for append in appends:
            if self.axes.get(append.source) == self.axes.get(append.target) == append.axis:
                self._appends[append.position] = append
        # The result of a concatenation that does not append has the layout of operations.
        if len(self._appends) < len(appends) and any(
            each.target in self.axes and each.position not in self._appends for each in appends
        ):
            self.axes.clear()

    def _written_otherwise(self, appends: set[int]) -> set[int]:
        """Returns the operands written or updated by others than copies and concatenations."""
        written = {
            index
            for item in each_item(self._structured.items)
            if isinstance(item, BasicBlock)
            for position in item.operations
            if position not in appends
            for index in self._graph.operations[position].outputs
        }
        for item in each_item(self._structured.items):
            if isinstance(item, Update):
                written |= {item.target, item.source, item.part, item.start}
        return written

    def _family(self, append: _Append, written: set[int]) -> set[int]:
        """Returns the variables that copies connect with the result of a concatenation."""
        wanted = self._around(append.target, append.axis)
        family, pending = {append.target}, [append.target]
        while pending:
            index = pending.pop()
            for copy in self._copies:
                if index not in (copy.target, copy.source):
                    continue
                other = copy.source if index == copy.target else copy.target
                if (
                    other not in family
                    and other not in written
                    and other not in self._structured.values
                    and self._operands[other].lifetime in _VARIABLES
                    and self._around(other, append.axis) == wanted
                ):
                    family.add(other)
                    pending.append(other)
        return family

    def _around(self, index: int, axis: int) -> tuple[object, ...]:
        """Returns what variables of one list share: the lengths that do not change, and types."""
        operand, shape = self._operands[index], self._shape(index)
        others = (*shape[:axis], *shape[axis + 1 :])
        lengths = (each.key if isinstance(each, Extent) else each for each in others)
        return len(shape), *lengths, operand.type, operand.scale, operand.zero_point

    def _shape(self, index: int) -> tuple[int, ...]:
        return self._operands[index].dimensions or ()

    def result(self) -> StructuredModel:
        """Returns the model; see `grow_outermost`."""
        items = list(self._rewritten(self._structured.items))
        outputs = [index for index in self._graph.outputs if index in self.axes]
        if outputs:
            last = [self._transposed_back(index, target=index) for index in outputs]
            items.append(BasicBlock(operations=tuple(position for position, _ in last)))
        model = self._structured.model
        graph = replace(self._graph, operands=tuple(self._operands), operations=tuple(self._operations))
        return replace(
            self._structured,
            model=replace(model, main=graph),
            items=tuple(items),
            origins=tuple(self._origins),
            graphs=tuple(self._graphs),
        )

    def _rewritten(self, items: Sequence[Item]) -> Iterator[Item]:
        for item in items:
            if isinstance(item, WhileLoop):
                yield self._loop(item)
            elif isinstance(item, Branch):
                then, otherwise = (tuple(self._rewritten(side)) for side in (item.then, item.otherwise))
                yield replace(item, then=then, otherwise=otherwise)
            elif isinstance(item, BasicBlock):
                yield BasicBlock(operations=tuple(self._block(item.operations)))
            elif isinstance(item, Copy):
                positions, copy = self._copy(item)
                if positions:
                    yield BasicBlock(operations=positions)
                yield copy
            else:
                yield item

    def _loop(self, loop: WhileLoop) -> WhileLoop:
        condition, body = tuple(self._rewritten(loop.condition)), list(self._rewritten(loop.body))
        updates: list[Copy] = []
        for update in loop.updates:
            positions, copy = self._copy(update)
            if positions:
                # Values are computed before they are assigned, since all assignments happen at the
                # same time.
                body.append(BasicBlock(operations=positions))
            updates.append(copy)
        return replace(loop, condition=condition, body=tuple(body), updates=tuple(updates))

    def _copy(self, copy: Copy) -> tuple[tuple[int, ...], Copy]:
        """Returns a copy with other layouts, and the operations that must run before it."""
        is_target, is_source = copy.target in self.axes, copy.source in self.axes
        if is_target and is_source:
            return (), Copy(
                target=self._with_axis_first(copy.target), source=self._with_axis_first(copy.source)
            )
        if is_target:
            position, source = self._transposed(copy.source, self.axes[copy.target])
            return (position,), Copy(target=self._with_axis_first(copy.target), source=source)
        if is_source:
            position, source = self._transposed_back(copy.source)
            return (position,), Copy(target=copy.target, source=source)
        return (), copy

    def _block(self, operations: Sequence[int]) -> Iterator[int]:
        for position in operations:
            operation = self._operations[position]
            append = self._appends.get(position)
            replaced: dict[int, int] = {}
            if append is not None:
                replaced[append.axis_operand] = self._integer(0)
                for index in dict.fromkeys((append.source, *append.parts)):
                    if self.axes.get(index) == append.axis:
                        replaced[index] = self._with_axis_first(index)
                        continue
                    if index in self.axes:
                        before, index_now = self._transposed_back(index)
                        yield before
                    else:
                        index_now = index
                    added, replaced[index] = self._transposed(index_now, append.axis)
                    yield added
                operation = replace(operation, outputs=(self._with_axis_first(append.target),))
            else:
                # One for each reader, so that no transposition is stored.
                for index in dict.fromkeys(operation.inputs):
                    if index in self.axes:
                        added, replaced[index] = self._transposed_back(index)
                        yield added
            inputs = tuple(replaced.get(index, index) for index in operation.inputs)
            self._operations[position] = replace(operation, inputs=inputs)
            yield position

    def _with_axis_first(self, index: int) -> int:
        """Returns the variable that stands for another one."""
        if index not in self._first:
            order = _axis_first(self.axes[index], len(self._shape(index)))
            self._first[index] = self._variable(index, order)
        return self._first[index]

    def _variable(self, like: int, order: Sequence[int]) -> int:
        shape = self._shape(like)
        self._operands.append(
            Operand(
                type=self._operands[like].type,
                dimensions=tuple(shape[each] for each in order),
                scale=self._operands[like].scale,
                zero_point=self._operands[like].zero_point,
                lifetime=Lifetime.TEMPORARY_VARIABLE,
            )
        )
        return len(self._operands) - 1

    def _transposed(self, index: int, axis: int) -> tuple[int, int]:
        """Adds a transposition that puts a dimension first; returns its position and its result."""
        order = _axis_first(axis, len(self._shape(index)))
        return self._transposition(index, order, self._variable(index, order))

    def _transposed_back(self, index: int, target: int | None = None) -> tuple[int, int]:
        """Adds an operation that computes a variable from the one that stands for it."""
        rank = len(self._shape(index))
        order = np.argsort(_axis_first(self.axes[index], rank)).tolist()
        result = self._variable(index, range(rank)) if target is None else target
        return self._transposition(self._with_axis_first(index), order, result)

    def _transposition(self, source: int, order: Sequence[int], target: int) -> tuple[int, int]:
        self._operands.append(
            Operand(
                type=OperandType.TENSOR_INT32,
                dimensions=(len(order),),
                lifetime=Lifetime.CONSTANT_COPY,
                value=np.array(order, np.int32).tobytes(),
            )
        )
        inputs = source, len(self._operands) - 1
        self._operations.append(
            Operation(type=OperationType.TFLITE_TRANSPOSE, inputs=inputs, outputs=(target,))
        )
        # Profiles attribute it to a concatenation.
        first = min(self._appends)
        self._origins.append(self._origins[first])
        self._graphs.append(self._graphs[first])
        return len(self._operations) - 1, target

    def _integer(self, value: int) -> int:
        self._operands.append(
            Operand(
                type=OperandType.INT32,
                lifetime=Lifetime.CONSTANT_COPY,
                dimensions=(),
                value=np.array(value, np.int32).tobytes(),
            )
        )
        return len(self._operands) - 1


def _axis_first(axis: int, rank: int) -> Sequence[int]:
    """Returns the dimensions with one of them first."""
    return [axis, *(each for each in range(rank) if each != axis)]
