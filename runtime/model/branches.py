"""Analyses control flow: the graphs that operations refer to, and which the runtime can interpret.

Graph number 0 is the main graph, and graph number k + 1 is `Model.referenced[k]`.
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_name
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType

#: The number of the main graph.
MAIN = 0
#: Maximum number of operations of interpreted control flow with every branch expanded. The limit is
#: needed because a plan contains the steps of a graph once for each operation that refers to it.
#: `neurald.hal.validation.model_rules` limits the nesting depth.
MAX_UNROLLED_OPERATIONS = 100_000

_INTERPRETABLE = (OperationType.IF, OperationType.WHILE)


def graph_of(model: Model, number: int) -> Subgraph:
    """Returns the graph with that number."""
    return model.main if number == MAIN else model.referenced[number - 1]


_models_of_graphs: WeakKeyDictionary[Model, dict[int, Model]] = WeakKeyDictionary()


def model_of(model: Model, number: int) -> Model:
    """Returns a graph as a model of its own, always the same one."""
    if number == MAIN:
        return model
    known = _models_of_graphs.setdefault(model, {})
    if number not in known:
        known[number] = Model(
            main=graph_of(model, number),
            referenced=model.referenced,
            pools=model.pools,
            relaxed=model.relaxed,
        )
    return known[number]


def is_control_flow(operation: Operation) -> bool:
    """Returns True if the operation is of a type that the runtime can interpret: IF or WHILE."""
    return operation.type in _INTERPRETABLE


def referenced_graphs(graph: Subgraph, operation: Operation) -> tuple[int, ...]:
    """Returns the numbers of the graphs that an operation refers to, in the order of its inputs."""
    operands = graph.operands
    return tuple(
        [number + 1 for index in operation.inputs if (number := operands[index].subgraph) is not None]
    )


class Nesting:
    """The nesting of a model's graphs.

    Attributes:
        order: numbers of all graphs; a graph follows those that it refers to.
        unrolled: by graph number, how many operations the graph has with all inner graphs expanded;
            at most `MAX_UNROLLED_OPERATIONS` + 1, since each level may double the number.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        if not model.referenced:  # as most models
            self.order: tuple[int, ...] = (MAIN,)
            self.unrolled = {MAIN: min(len(model.main.operations), MAX_UNROLLED_OPERATIONS + 1)}
            return
        inner = [
            [n for operation in graph.operations for n in referenced_graphs(graph, operation)]
            for graph in (model.main, *model.referenced)
        ]
        self.order = _inner_first(inner)
        self.unrolled = {}
        for number in self.order:
            count = len(graph_of(model, number).operations) + sum(self.unrolled[n] for n in inner[number])
            self.unrolled[number] = min(count, MAX_UNROLLED_OPERATIONS + 1)

    def placed_graphs(self) -> tuple[int, ...]:
        """Returns the graphs with operations to place: the main one and interpretable branches."""
        if not self._model.referenced:
            return (MAIN,)
        found = {MAIN: None}
        pending = [MAIN]
        while pending:
            number = pending.pop()
            graph = graph_of(self._model, number)
            for operation in graph.operations:
                if self.is_interpretable(number, operation):
                    new = [n for n in referenced_graphs(graph, operation) if n not in found]
                    found |= dict.fromkeys(new)
                    pending += new
        return tuple(found)

    def is_interpretable(self, number: int, operation: Operation) -> bool:
        """Returns True if an operation is control flow that the runtime can interpret."""
        return is_control_flow(operation) and not self.reason_not_interpretable(number, operation)

    def reason_not_interpretable(self, number: int, operation: Operation) -> str:
        """Returns why the runtime cannot interpret an IF or WHILE; an empty string if it can."""
        graph = graph_of(self._model, number)
        branches = referenced_graphs(graph, operation)
        found = _of_unknown_size(graph, (*operation.inputs, *operation.outputs))
        if found is not None:
            return f"{operand_name(graph.operands, found)} has an unknown size"
        for branch in branches:
            inner = graph_of(self._model, branch)
            found = _of_unknown_size(inner, (*inner.inputs, *inner.outputs))
            if found is not None:
                return f"{operand_name(inner.operands, found)} of graph {branch} has an unknown size"
        if sum(self.unrolled[branch] for branch in branches) > MAX_UNROLLED_OPERATIONS:
            return f"its branches have more than {MAX_UNROLLED_OPERATIONS} operations"
        return ""


def _of_unknown_size(graph: Subgraph, indexes: Sequence[int]) -> int | None:
    return next((index for index in indexes if _is_of_unknown_size(graph.operands[index])), None)


def _is_of_unknown_size(operand: Operand) -> bool:
    if operand.lifetime in (Lifetime.SUBGRAPH, Lifetime.NO_VALUE):
        return False
    return not operand.is_fully_specified or operand.type is OperandType.TENSOR_STRING


def _inner_first(inner: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Sorts graphs so that each follows the graphs that it refers to.

    A valid model has no cycles. The traversal is not recursive, since its depth depends on the
    model.
    """
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(inner)):
        if start in seen:
            continue
        seen.add(start)
        stack = [(start, iter(inner[start]))]
        while stack:
            number, below = stack[-1]
            target = next((n for n in below if n not in seen), None)
            if target is None:
                order.append(number)
                stack.pop()
            else:
                seen.add(target)
                stack.append((target, iter(inner[target])))
    return tuple(order)
