"""Derives invalid models and requests from valid ones. A remote device must refuse them.

The models correspond to `ValidateModel.cpp` of Android's VTS.
"""

from collections.abc import Iterator
from typing import Any

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant, Operand, Operation
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import validate_model

#: The type that replaces the type of an operand.
_OTHER_TYPE = {
    OperandType.TENSOR_FLOAT32: OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT32: OperandType.TENSOR_FLOAT32,
    OperandType.INT32: OperandType.FLOAT32,
    OperandType.FLOAT32: OperandType.INT32,
    OperandType.BOOL: OperandType.INT32,
}
_TOO_HIGH_RANK = 17
_TOO_LONG = (1 << 16, 1 << 16, 2)


def mutations(model: Model) -> Iterator[tuple[str, Model]]:
    """Yields invalid models, each with a description of the change."""
    for make in (_operand_changes, _operation_changes, _graph_changes):
        for what, changed in make(model):
            try:
                validate_model(changed)
            except BadData:
                yield what, changed


_Changes = Iterator[tuple[str, Model]]


def _with(model: Model, **changes: Any) -> Model:
    return replace(model, main=replace(model.main, **changes))


def _operand_changes(model: Model) -> _Changes:
    for index, operand in enumerate(model.main.operands):
        for what, changed in _variants(operand):
            operands = (*model.main.operands[:index], changed, *model.main.operands[index + 1 :])
            yield f"operand {index}: {what}", _with(model, operands=operands)


def _variants(operand: Operand) -> Iterator[tuple[str, Operand]]:
    other = _OTHER_TYPE.get(operand.type, OperandType.TENSOR_FLOAT32)
    yield "another type", replace(operand, type=other)
    yield "type MODEL", replace(operand, type=OperandType.MODEL, dimensions=())
    if operand.type.is_tensor:
        yield "a rank that is too high", replace(operand, dimensions=(1,) * _TOO_HIGH_RANK)
        yield "more bytes than 2^32", replace(operand, dimensions=_TOO_LONG)
        yield "an INT32", replace(operand, type=OperandType.INT32, dimensions=(), scale=0.0, zero_point=0)
    else:
        yield "a scalar with dimensions", replace(operand, dimensions=(2,))
    yield "a negative scale", replace(operand, scale=-1.0)
    yield "a scale that is NaN", replace(operand, scale=float("nan"))
    yield "another scale", replace(operand, scale=0.0 if operand.scale else 1.0)
    yield "a zero point that is too low", replace(operand, zero_point=-(1 << 20))
    yield "a zero point that is too high", replace(operand, zero_point=1 << 20)
    if operand.channel_quant is None:
        quant = ChannelQuant(dimension=0, scales=(1.0,))
        yield "channel scales", replace(operand, channel_quant=quant)
    else:
        yield "no channel scales", replace(operand, channel_quant=None)
    if operand.lifetime is Lifetime.CONSTANT_COPY:
        yield "a constant with a byte less", replace(operand, value=operand.value[:-1])
        yield "a constant with a byte more", replace(operand, value=operand.value + b"\0")
    for lifetime in Lifetime:
        if lifetime is not operand.lifetime:
            yield f"lifetime {lifetime.name}", replace(operand, lifetime=lifetime)


def _operation_changes(model: Model) -> _Changes:
    (operation, *others) = model.main.operations
    count = len(model.main.operands)

    def having(changed: Operation) -> Model:
        return _with(model, operations=(changed, *others))

    def reading(inputs: tuple[int, ...]) -> Model:
        return having(replace(operation, inputs=inputs))

    def writing(outputs: tuple[int, ...]) -> Model:
        return having(replace(operation, outputs=outputs))

    for name, indexes, made in (
        ("inputs", operation.inputs, reading),
        ("outputs", operation.outputs, writing),
    ):
        for position in range(len(indexes)):
            for wrong in (count, -1):
                changed = (*indexes[:position], wrong, *indexes[position + 1 :])
                yield f"{name}[{position}] is operand {wrong}", made(changed)
        yield f"{name}: one less", made(indexes[:-1])
        yield f"{name}: one more", made((*indexes, 0))
    yield "an operation twice", _with(model, operations=(operation, *model.main.operations))
    yield "no operation", _with(model, operations=())


def _graph_changes(model: Model) -> _Changes:
    graph = model.main
    count = len(graph.operands)
    yield "no output", _with(model, outputs=())
    yield "no operand", _with(model, operands=())
    yield "an output twice", _with(model, outputs=(*graph.outputs, graph.outputs[0]))
    yield "an output that does not exist", _with(model, outputs=(*graph.outputs, count))
    yield (
        "an operand that nothing writes",
        _with(model, operands=(*graph.operands, Operand(type=OperandType.INT32))),
    )
    if graph.inputs:
        yield "an input twice", _with(model, inputs=(*graph.inputs, graph.inputs[0]))
        yield "an input that does not exist", _with(model, inputs=(*graph.inputs[:-1], count))
        yield "an input that is not listed", _with(model, inputs=graph.inputs[:-1])
        yield "an input that is also an output", _with(model, inputs=(*graph.inputs, graph.outputs[0]))


def request_mutations(request: Request) -> Iterator[tuple[str, Request]]:
    """Yields invalid requests, each with a description of the change."""
    first = request.outputs[0]
    yield "one output less", replace(request, outputs=request.outputs[:-1])
    yield "one output more", replace(request, outputs=(*request.outputs, first))
    shape = (*(first.dimensions or ()), *(1,) * _TOO_HIGH_RANK)
    yield (
        "an output of another rank",
        replace(request, outputs=(replace(first, dimensions=shape), *request.outputs[1:])),
    )
    if not request.inputs:
        return
    (given, *others) = request.inputs
    yield "one input less", replace(request, inputs=request.inputs[:-1])
    yield "one input more", replace(request, inputs=(*request.inputs, given))
    if given.length:
        short = replace(given, length=given.length - 1)
        yield "an input with a byte less", replace(request, inputs=(short, *others))
    taller = replace(given, dimensions=(*(given.dimensions or ()), 2))
    yield "an input of another rank", replace(request, inputs=(taller, *others))
