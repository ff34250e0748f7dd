"""Converts values of the HAL to protobuf messages and back; no other code looks into messages.

Received messages are not trusted. Decoding checks numbers, counts and limits, and raises BadData
that names the field; `neurald.hal.validation.model_rules` then checks whether the values are
consistent.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from neurald._proto import device_pb2, types_pb2
from neurald.hal.accounting.pacing import paced
from neurald.hal.device import ExecutionResult, OutputShape, Timing
from neurald.hal.errors import BadData, OpFailed, ResourceExhaustedPersistent, ResultCode, error_for
from neurald.hal.execution.fenced_execution import FencedOutcome
from neurald.hal.memory.pool import Memory
from neurald.hal.model.extension import Extension, vendor_extensions
from neurald.hal.model.graph import ChannelQuant, Location, Operand, Operation, Subgraph
from neurald.hal.model.model import Model, SignatureNames
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions, Lifetime
from neurald.hal.rpc.wire.extension import ExtensionNumbers, extension_to_wire, extensions_from_wire
from neurald.hal.validation.model_rules import MAX_OPERANDS, MAX_OPERATIONS

#: How many graphs IF and WHILE operations may refer to.
MAX_REFERENCED = 1024

_Member = TypeVar("_Member", bound=IntEnum)
#: A message with a field `dimensions`. The generated classes have no common type for that.
_Message = Any


def member(kind: Callable[[int], _Member], number: int, what: str) -> _Member:
    """Returns the member of an enum that has a number; `what` names it in messages.

    Raises:
        BadData: there is no such member.
    """
    try:
        return kind(number)
    except ValueError:
        raise BadData(f"{what} is {number}, which is not known") from None


def _limit(count: int, maximum: int, what: str) -> None:
    if count > maximum:
        raise ResourceExhaustedPersistent(f"{count} {what}; at most {maximum} are allowed")


def text(name: str) -> str:
    """Returns a name that can be sent: names come from files, and may not be valid UTF-8."""
    return name.encode("utf-8", "replace").decode()


def dimensions_to_wire(dimensions: Dimensions) -> types_pb2.Dimensions | None:
    """Encodes dimensions."""
    return None if dimensions is None else types_pb2.Dimensions(sizes=dimensions)


def dimensions_from_wire(message: _Message) -> Dimensions:
    """Decodes the field `dimensions` of a message."""
    return tuple(message.dimensions.sizes) if message.HasField("dimensions") else None


# Models


def model_to_wire(model: Model, pools: Sequence[bytes]) -> types_pb2.Model:
    """Encodes a model.

    Args:
        model: any model.
        pools: tokens of memories with the content of the model's pools.

    Raises:
        BadData: a number is larger than its field.
    """
    extensions = vendor_extensions(model)
    numbers = ExtensionNumbers(extensions)
    try:
        return types_pb2.Model(
            main=_graph_to_wire(model.main, numbers),
            referenced=[_graph_to_wire(graph, numbers) for graph in model.referenced],
            extensions=map(extension_to_wire, extensions),
            pools=pools,
            relaxed=model.relaxed,
            input_names=map(text, model.input_names),
            output_names=map(text, model.output_names),
            signatures={
                text(key): types_pb2.Model.Signature(
                    inputs=map(text, names.inputs), outputs=map(text, names.outputs)
                )
                for key, names in model.signatures.items()
            },
        )
    except (ValueError, TypeError) as error:
        raise BadData(f"the model cannot be sent: {error}") from None


def _graph_to_wire(graph: Subgraph, numbers: ExtensionNumbers) -> types_pb2.Subgraph:
    return types_pb2.Subgraph(
        operands=[_operand_to_wire(operand, numbers) for operand in graph.operands],
        operations=[_operation_to_wire(operation, numbers) for operation in graph.operations],
        inputs=graph.inputs,
        outputs=graph.outputs,
        number=graph.number,
    )


def _operation_to_wire(operation: Operation, numbers: ExtensionNumbers) -> types_pb2.Operation:
    return types_pb2.Operation(
        type=numbers.number(operation.type),  # type: ignore[arg-type]
        inputs=operation.inputs,
        outputs=operation.outputs,
        number=operation.number,
    )


def _operand_to_wire(operand: Operand, numbers: ExtensionNumbers) -> types_pb2.Operand:
    quant, place = operand.channel_quant, operand.location
    return types_pb2.Operand(
        type=numbers.number(operand.type),  # type: ignore[arg-type]
        dimensions=dimensions_to_wire(operand.dimensions),
        scale=operand.scale,
        zero_point=operand.zero_point,
        channel_quant=None
        if quant is None
        else types_pb2.ChannelQuant(dimension=quant.dimension, scales=quant.scales),
        lifetime=operand.lifetime,  # type: ignore[arg-type]
        value=operand.value,
        location=None
        if place is None
        else types_pb2.Location(pool=place.pool, offset=place.offset, length=place.length),
        subgraph=operand.subgraph,
        name=text(operand.name),
        number=operand.number,
        extension_data=operand.extension_data,
    )


def check_graphs(message: types_pb2.Model) -> None:
    """Raises an error if a message has more graphs, operands or operations than a model may have.

    Raises:
        ResourceExhaustedPersistent: it has.
    """
    graphs = (message.main, *message.referenced)
    _limit(len(message.referenced), MAX_REFERENCED, "referenced graphs")
    _limit(sum(len(graph.operands) for graph in graphs), MAX_OPERANDS, "operands")
    _limit(sum(len(graph.operations) for graph in graphs), MAX_OPERATIONS, "operations")


def model_from_wire(
    message: types_pb2.Model, pools: Sequence[Memory], extensions: Sequence[Extension] = ()
) -> Model:
    """Decodes a model, which must still be validated.

    Args:
        message: the message from a client.
        pools: the memories that `message.pools` refers to.
        extensions: the known vendor extensions.

    Raises:
        BadData: a number is unknown, or an extension is unknown.
        ResourceExhaustedPersistent: a limit is exceeded.
    """
    check_graphs(message)
    numbers = ExtensionNumbers(_extensions(message, extensions))
    main, *referenced = (_graph_from_wire(graph, numbers) for graph in (message.main, *message.referenced))
    return Model(
        main=main,
        referenced=tuple(referenced),
        pools=tuple(pools),
        relaxed=message.relaxed,
        input_names=tuple(message.input_names),
        output_names=tuple(message.output_names),
        signatures={
            key: SignatureNames(inputs=tuple(names.inputs), outputs=tuple(names.outputs))
            for key, names in message.signatures.items()
        },
    )


def encode_model(model: Model) -> bytes:
    """Encodes the graphs of a model without its pools. Equal graphs give equal bytes.

    Raises:
        BadData: a number is larger than its field.
    """
    return model_to_wire(model, ()).SerializeToString(deterministic=True)


def _extensions(message: types_pb2.Model, known: Sequence[Extension]) -> tuple[Extension, ...]:
    """Returns the extensions of a model, each of which must be known with the same declaration."""
    found = extensions_from_wire(message.extensions)
    for extension in found:
        if extension not in known:
            same = extension.name in (each.name for each in known)
            reason = "is declared differently here" if same else "is not known here"
            raise BadData(f"extension {extension.name} {reason}")
    return found


def decode_model(data: bytes, pools: Sequence[Memory], extensions: Sequence[Extension] = ()) -> Model:
    """Decodes a model that `encode_model` encoded, which must still be validated.

    Raises:
        BadData: the bytes are not a model, or a number or an extension is unknown.
        ResourceExhaustedPersistent: a limit is exceeded.
    """
    try:
        message = types_pb2.Model.FromString(data)
    except DecodeError:
        raise BadData(f"the {len(data)} bytes are not a model") from None
    return model_from_wire(message, pools, extensions)


def _graph_from_wire(message: types_pb2.Subgraph, numbers: ExtensionNumbers) -> Subgraph:
    return Subgraph(
        operands=tuple(
            _operand_from_wire(operand, f"operand {index}", numbers)
            for index, operand in enumerate(paced(message.operands))
        ),
        operations=tuple(
            Operation(
                type=numbers.operation_type(operation.type, f"operation {position}: type"),
                inputs=tuple(operation.inputs),
                outputs=tuple(operation.outputs),
                number=operation.number if operation.HasField("number") else None,
            )
            for position, operation in enumerate(paced(message.operations))
        ),
        inputs=tuple(message.inputs),
        outputs=tuple(message.outputs),
        number=message.number,
    )


def _operand_from_wire(message: types_pb2.Operand, what: str, numbers: ExtensionNumbers) -> Operand:
    quant = place = None
    if message.HasField("channel_quant"):
        quant = ChannelQuant(
            dimension=message.channel_quant.dimension, scales=tuple(message.channel_quant.scales)
        )
    if message.HasField("location"):
        at = message.location
        place = Location(pool=at.pool, offset=at.offset, length=at.length)
    return Operand(
        type=numbers.operand_type(message.type, f"{what}: type"),
        dimensions=dimensions_from_wire(message),
        scale=message.scale,
        zero_point=message.zero_point,
        channel_quant=quant,
        lifetime=member(Lifetime, message.lifetime, f"{what}: lifetime"),
        value=message.value,
        location=place,
        subgraph=message.subgraph if message.HasField("subgraph") else None,
        name=message.name,
        number=message.number if message.HasField("number") else None,
        extension_data=message.extension_data,
    )


# Requests and their results


def request_to_wire(request: Request, pools: Sequence[types_pb2.RequestPool]) -> types_pb2.Request:
    """Encodes a request whose pools the daemon finds in `pools`.

    Raises:
        BadData: a number is larger than its field.
    """
    try:
        return types_pb2.Request(
            inputs=map(_argument_to_wire, request.inputs),
            outputs=map(_argument_to_wire, request.outputs),
            pools=pools,
        )
    except (ValueError, TypeError) as error:
        raise BadData(f"the request cannot be sent: {error}") from None


def _argument_to_wire(argument: Argument) -> types_pb2.Argument:
    return types_pb2.Argument(
        pool=argument.pool,
        offset=argument.offset,
        length=argument.length,
        dimensions=dimensions_to_wire(argument.dimensions),
        padding=argument.padding,
    )


def request_from_wire(message: types_pb2.Request, pools: Sequence[Memory]) -> Request:
    """Decodes a request, which must still be validated against its model.

    Args:
        message: the message from a client.
        pools: the memories that the message refers to.
    """
    return Request(
        inputs=tuple(map(_argument_from_wire, message.inputs)),
        outputs=tuple(map(_argument_from_wire, message.outputs)),
        pools=tuple(pools),
    )


def _argument_from_wire(message: types_pb2.Argument) -> Argument:
    return Argument(
        pool=message.pool if message.HasField("pool") else None,
        offset=message.offset,
        length=message.length,
        dimensions=dimensions_from_wire(message),
        padding=message.padding,
    )


def result_to_wire(result: ExecutionResult, results: Sequence[bytes]) -> device_pb2.ExecuteReply:
    """Encodes the result of an execution; `results` are tokens of new memories."""
    return device_pb2.ExecuteReply(
        output_shapes=(
            types_pb2.OutputShape(
                dimensions=dimensions_to_wire(shape.dimensions),
                sufficient=shape.sufficient,
                length=shape.length,
            )
            for shape in result.output_shapes
        ),
        timing=_timing_to_wire(result.timing),
        results=results,
    )


def result_from_wire(message: device_pb2.ExecuteReply, outputs: int) -> ExecutionResult:
    """Decodes the result of an execution of a model with that many outputs.

    Raises:
        BadData: the number of shapes differs.
    """
    if len(message.output_shapes) != outputs:
        raise BadData(
            f"the daemon returned {len(message.output_shapes)} output shapes; {outputs} are expected"
        )
    return ExecutionResult(
        output_shapes=tuple(
            OutputShape(
                dimensions=dimensions_from_wire(shape),
                sufficient=shape.sufficient,
                length=shape.length if shape.HasField("length") else None,
            )
            for shape in message.output_shapes
        ),
        timing=_timing_from_wire(message.timing),
    )


def _timing_to_wire(timing: Timing) -> types_pb2.Timing:
    return types_pb2.Timing(
        on_device_ns=timing.on_device_ns, in_driver_ns=timing.in_driver_ns, queued_ns=timing.queued_ns
    )


def _timing_from_wire(message: types_pb2.Timing) -> Timing:
    return Timing(
        on_device_ns=message.on_device_ns if message.HasField("on_device_ns") else None,
        in_driver_ns=message.in_driver_ns if message.HasField("in_driver_ns") else None,
        queued_ns=message.queued_ns if message.HasField("queued_ns") else None,
    )


def outcome_to_wire(outcome: FencedOutcome) -> device_pb2.GetFencedExecutionInfoReply:
    """Encodes the outcome of a fenced execution."""
    if outcome.result is None:
        error = outcome.error or OpFailed("")
        return device_pb2.GetFencedExecutionInfoReply(
            code=error.code,  # type: ignore[arg-type]
            message=text(str(error)),
        )
    return device_pb2.GetFencedExecutionInfoReply(
        result=result_to_wire(outcome.result, ()),
        after_fences=_timing_to_wire(outcome.after_fences),
    )


def outcome_from_wire(message: device_pb2.GetFencedExecutionInfoReply, outputs: int) -> FencedOutcome:
    """Decodes the outcome of a fenced execution of a model with that many outputs.

    Raises:
        BadData: the result is not valid; see `result_from_wire`.
    """
    code = member(ResultCode, message.code, "result code")
    if code is not ResultCode.NO_ERROR:
        return FencedOutcome(error=error_for(code, message.message))
    return FencedOutcome(
        result=result_from_wire(message.result, outputs), after_fences=_timing_from_wire(message.after_fences)
    )
