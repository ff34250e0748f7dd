"""Finds where a loop appends elements to a list, so that they are stored behind those that it has.

A concatenation in a loop becomes an `Append` if

- it appends: along the outermost dimension that is longer than 1, so that its first input is the
  contiguous begin of its result, and
- its result becomes the first input of a later turn, through copies, branches and inner loops.

Operations on the way that only change the shape become copies. Whether the lists can share memory,
so that nothing but the new elements is copied, is decided for the whole program
(`neurald.drivers.cpu.program.copy_coalescing`).
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import CONCATENATIONS, RESHAPES
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    Append,
    BasicBlock,
    Branch,
    Copy,
    Item,
    StructuredModel,
    Update,
    WhileLoop,
    each_item,
)
from neurald.drivers.compiler.ir.extents.extent import has_extents, is_one
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import encoding_of
from neurald.hal.model.types import Lifetime
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.concatenation import concatenation_axis
from neurald.hal.records import replace

#: Operations that change nothing but the shape.
_SHAPE_CHANGES = frozenset(
    (
        *RESHAPES,
        OperationType.EXPAND_DIMS,
        OperationType.TFLITE_EXPAND_DIMS,
        OperationType.SQUEEZE,
        OperationType.TFLITE_SQUEEZE,
    )
)
_VARIABLES = (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE)


def append_in_place(structured: StructuredModel) -> StructuredModel:
    """Returns the model in which lists that grow in loops do so by `Append`."""
    return _Appends(structured).result()


class _Flow(Struct, frozen=True):
    """An operation in a loop whose result begins with the elements of its first input."""

    position: int
    source: int
    target: int
    #: The other inputs of a concatenation.
    parts: tuple[int, ...] = ()


class _Reachability:
    """The operands that get elements of others. Sets of operands are the bits of integers."""

    def __init__(self, edges: Sequence[tuple[int, int]]) -> None:
        self._numbers = {index: n for n, index in enumerate(dict.fromkeys(i for edge in edges for i in edge))}
        self._reached = [1 << n for n in range(len(self._numbers))]
        numbered = [(self._numbers[source], self._numbers[target]) for source, target in reversed(edges)]
        is_changed = True
        while is_changed:
            is_changed = False
            for source, target in numbered:
                found = self._reached[source] | self._reached[target]
                if found != self._reached[source]:
                    self._reached[source], is_changed = found, True

    def reaches(self, source: int, target: int) -> bool:
        """Returns True if elements of `source` get into `target`."""
        return bool(self._reached[self._numbers[source]] >> self._numbers[target] & 1)


class _Appends:
    def __init__(self, structured: StructuredModel) -> None:
        self._structured = structured
        self._graph = structured.model.main
        self._operands = list(self._graph.operands)
        #: The items that replace operations, by the positions of these.
        self._replaced: dict[int, list[Item]] = {}

    def result(self) -> StructuredModel:
        """Returns the model; see `append_in_place`."""
        flows = [*self._flows(self._structured.items, is_repeated=False)]
        if not any(each.parts for each in flows):
            return self._structured
        edges = [(each.source, each.target) for each in flows]
        edges += [
            (each.source, each.target)
            for each in each_item(self._structured.items)
            if isinstance(each, Copy | Update)
        ]
        elements = _Reachability(edges)
        grown = [each for each in flows if each.parts and elements.reaches(each.target, each.source)]
        for each in grown:
            self._append(each)
        for each in flows:
            if not each.parts and any(
                elements.reaches(each.target, one.source) and elements.reaches(one.source, each.source)
                for one in grown
            ):
                self._replaced[each.position] = [Copy(target=each.target, source=each.source)]
        if not grown:
            return self._structured
        model = self._structured.model
        return replace(
            self._structured,
            model=replace(model, main=replace(self._graph, operands=tuple(self._operands))),
            items=self._rewritten(self._structured.items),
        )

    def _flows(self, items: Sequence[Item], *, is_repeated: bool) -> Iterator[_Flow]:
        for item in items:
            if isinstance(item, WhileLoop):
                yield from self._flows(item.condition, is_repeated=True)
                yield from self._flows(item.body, is_repeated=True)
            elif isinstance(item, Branch):
                yield from self._flows(item.then, is_repeated=is_repeated)
                yield from self._flows(item.otherwise, is_repeated=is_repeated)
            elif isinstance(item, BasicBlock) and is_repeated:
                for position in item.operations:
                    flow = self._flow(position)
                    if flow is not None:
                        yield flow

    def _flow(self, position: int) -> _Flow | None:
        operation = self._graph.operations[position]
        if operation.type in _SHAPE_CHANGES:
            parts: tuple[int, ...] = ()
        elif operation.type in CONCATENATIONS:
            parts = self._appended(operation)
            if not parts:
                return None
        else:
            return None
        source, target = operation.inputs[0], operation.outputs[0]
        if not all(self._is_like(index, target) for index in (source, *parts)):
            return None
        if self._operands[source].lifetime not in _VARIABLES or not has_extents(self._shape(source)):
            return None
        return _Flow(position, source, target, parts)

    def _appended(self, operation: Operation) -> tuple[int, ...]:
        """Returns the further inputs of a concatenation if these follow the first one in memory."""
        operands, model = self._operands, self._structured.model
        call = Call(
            DEFINITIONS[operation.type].bind(operation, operands),
            operands,
            self._shape,
            lambda index: model.constant(operands[index]),
        )
        inputs = call.indexes("inputs")
        if not all(map(is_one, self._shape(inputs[0])[: concatenation_axis(call)])):
            return ()
        return tuple(inputs[1:])

    def _shape(self, index: int) -> tuple[int, ...]:
        return self._operands[index].dimensions or ()

    def _is_like(self, index: int, target: int) -> bool:
        """Returns True if an operand is stored, with elements like those of another one."""
        one, other = (self._operands[each] for each in (index, target))
        return index not in self._structured.values and encoding_of(one) == encoding_of(other)

    def _append(self, flow: _Flow) -> None:
        items: list[Item] = []
        source = flow.source
        for part in flow.parts[:-1]:
            longer = self._longer(flow, source, part)
            items.append(Append(target=longer, source=source, part=part))
            source = longer
        items.append(Append(target=flow.target, source=source, part=flow.parts[-1]))
        self._replaced[flow.position] = items

    def _longer(self, flow: _Flow, source: int, part: int) -> int:
        """Adds an operand for the elements of two others."""
        axis = next(
            d
            for d, lengths in enumerate(zip(self._shape(flow.source), self._shape(flow.target), strict=True))
            if lengths[0] is not lengths[1]
        )
        first, second = self._shape(source), self._shape(part)
        dimensions = (*first[:axis], first[axis] + second[axis], *first[axis + 1 :])
        self._operands.append(
            replace(self._operands[flow.target], dimensions=dimensions, lifetime=Lifetime.TEMPORARY_VARIABLE)
        )
        return len(self._operands) - 1

    def _rewritten(self, items: Sequence[Item]) -> tuple[Item, ...]:
        found: list[Item] = []
        for item in items:
            if isinstance(item, WhileLoop):
                condition, body = self._rewritten(item.condition), self._rewritten(item.body)
                found.append(replace(item, condition=condition, body=body))
            elif isinstance(item, Branch):
                then, otherwise = self._rewritten(item.then), self._rewritten(item.otherwise)
                found.append(replace(item, then=then, otherwise=otherwise))
            elif isinstance(item, BasicBlock):
                found += self._split(item)
            else:
                found.append(item)
        return tuple(found)

    def _split(self, block: BasicBlock) -> Iterator[Item]:
        """Yields what runs instead of a block."""
        left: list[int] = []
        for position in block.operations:
            if position not in self._replaced:
                left.append(position)
                continue
            if left:
                yield BasicBlock(operations=tuple(left))
                left = []
            yield from self._replaced[position]
        if left:
            yield BasicBlock(operations=tuple(left))
