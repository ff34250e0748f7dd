"""IF and WHILE: operations that run other graphs of the model.

A WHILE of m values has a condition (m inputs, one output), a body (m inputs, k outputs) and n
outputs, with m ≥ k ≥ n. The final first n values are its outputs; values up to k are state of the
loop; the rest are constant.
"""

import time
from collections.abc import Sequence

from neurald.hal.device.execution import loop_timed_out
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, row, tensor


class _AllTypesExceptModel(frozenset[OperandType]):
    """All operand types except MODEL, including those of vendor extensions."""

    def __contains__(self, kind: object) -> bool:
        return kind is not OperandType.MODEL


_ANY_TYPE = _AllTypesExceptModel(frozenset(OperandType) - {OperandType.MODEL})
_LEVEL = FeatureLevel.LEVEL_4


def _graph(name: str) -> Parameter:
    return Parameter(name=name, types=frozenset((OperandType.MODEL,)))


def _values(name: str) -> Parameter:
    """Returns a parameter for any number of operands of any type and rank."""
    return Parameter(name=name, types=_ANY_TYPE, ranks=ANY_RANK, optional=True, variadic=True)


def _inputs(call: Call) -> tuple[Operand, ...]:
    return call.operands("inputs") if "inputs" in call.binding.inputs else ()


def _outputs(call: Call) -> tuple[Operand, ...]:
    return call.operands("outputs") if "outputs" in call.binding.outputs else ()


def _match(outer: Sequence[Operand], graph: Subgraph, indexes: Sequence[int], what: str) -> None:
    """Checks that operands outside and inside a graph match in type, quantisation and shape."""
    if len(outer) != len(indexes):
        raise BadData(f"{what}: the graph has {len(indexes)} operands; {len(outer)} are expected")
    for position, (operand, index) in enumerate(zip(outer, indexes, strict=True)):
        inner = graph.operands[index]
        if operand.type is not inner.type:
            raise BadData(f"{what} {position} has type {inner.type.name}; {operand.type.name} is expected")
        for attribute in ("scale", "zero_point", "channel_quant"):
            ours, theirs = getattr(operand, attribute), getattr(inner, attribute)
            if ours != theirs:
                raise BadData(f"{what} {position} has {attribute} {theirs}; {ours} is expected")
        known = operand.dimensions is not None and inner.dimensions is not None
        if known and not _compatible(operand.dimensions or (), inner.dimensions or ()):
            raise BadData(
                f"{what} {position} has shape {list(inner.dimensions or ())}; "
                f"{list(operand.dimensions or ())} is expected"
            )


def _compatible(first: Shape, second: Shape) -> bool:
    return len(first) == len(second) and all(
        a == b or 0 in (a, b) for a, b in zip(first, second, strict=True)
    )


def _is_condition(operand: Operand) -> bool:
    dimensions = operand.dimensions
    return operand.type is OperandType.TENSOR_BOOL8 and (
        dimensions is None or all(d in (0, 1) for d in dimensions)
    )


def _truth(value: Array, what: str) -> bool:
    if value.size != 1:
        raise BadData(f"{what} has {value.size} elements; one is expected")
    return bool(value.reshape(-1)[0])


def _check_if(call: Call) -> None:
    if not _is_condition(call.operand("condition")):
        raise BadData(f"{call.name('condition')} must have one element")
    for name in ("then", "else"):
        graph = call.graph(name)
        _match(_inputs(call), graph, graph.inputs, f"{name} graph: input")
        _match(_outputs(call), graph, graph.outputs, f"{name} graph: output")


def _if(call: Call) -> tuple[Array, ...]:
    name = "then" if _truth(call.array("condition"), call.name("condition")) else "else"
    values = call.arrays("inputs") if _inputs(call) else ()
    return tuple(call.runner.run(call.graph_index(name), values))


def _check_while(call: Call) -> None:
    condition, body = call.graph("condition"), call.graph("body")
    values, outputs = _inputs(call), _outputs(call)
    _match(values, condition, condition.inputs, "condition graph: input")
    if len(condition.outputs) != 1 or not _is_condition(condition.operands[condition.outputs[0]]):
        raise BadData("condition graph: exactly one output, a TENSOR_BOOL8 of one element, is expected")
    _match(values, body, body.inputs, "body graph: input")
    carried = len(body.outputs)
    if not len(values) >= carried >= len(outputs):
        raise BadData(
            f"{len(values)} values, {carried} outputs of the body and {len(outputs)} outputs; "
            "each number must be at most the one before it"
        )
    # The results of a turn are inputs of the next one, whose lengths may be open where those of the
    # first values are known.
    following = [body.operands[index] for index in body.inputs[:carried]]
    _match(following, body, body.outputs, "body graph: output")
    _match(outputs, body, body.outputs[: len(outputs)], "body graph: output")


def _while(call: Call) -> tuple[Array, ...]:
    """Runs the loop.

    Raises:
        MissedDeadlineTransient: the condition still holds after the loop timeout.
    """
    runner = call.runner
    condition, body = call.graph_index("condition"), call.graph_index("body")
    values = list(call.arrays("inputs")) if _inputs(call) else []
    deadline_s = runner.loop_deadline_s()
    while _truth(runner.run(condition, values)[0], "the output of the condition graph"):
        if time.monotonic() >= deadline_s:
            raise loop_timed_out("WHILE")
        results = runner.run(body, values)
        values[: len(results)] = results
    return tuple(values[: len(_outputs(call))])


def _unknown(call: Call) -> tuple[Shape, ...]:
    """Raises UnknownValue: the results depend on which graph runs, and how often."""
    raise UnknownValue(call.binding.type.name)


DEFINITIONS = (
    Definition(
        type=OperationType.IF,
        forms=(
            Form(
                inputs=(
                    tensor("condition", OperandType.TENSOR_BOOL8, rank=ANY_RANK),
                    _graph("then"),
                    _graph("else"),
                    _values("inputs"),
                ),
                outputs=(_values("outputs"),),
            ),
        ),
        rows=(row(_LEVEL, zero_points16=True),),
        checks=(_check_if,),
        shape=_unknown,
        reference=_if,
    ),
    Definition(
        type=OperationType.WHILE,
        forms=(
            Form(
                inputs=(_graph("condition"), _graph("body"), _values("inputs")),
                outputs=(_values("outputs"),),
            ),
        ),
        rows=(row(_LEVEL, zero_points16=True),),
        checks=(_check_while,),
        shape=_unknown,
        reference=_while,
    ),
)
