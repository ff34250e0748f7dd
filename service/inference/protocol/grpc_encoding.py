"""Requests and answers as messages of gRPC.

Most bytes of a request are tensors, in one field of the message. They are found in the received
bytes and used there; only the rest is decoded by protobuf. Answers are put together in the same
way, so that the bytes of tensors are copied once.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from neurald.hal.errors import Error
from neurald.hal.lanes.byte_strings import encode_byte_strings
from neurald.hal.rpc.transport.message_scan import count_parts
from neurald.hal.rpc.transport.varint import encoded_varint
from neurald.service.inference.protocol.element_types import content_field, dtype_of, kind_of_datatype
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.messages import (
    ModelInferRequest,
    ModelInferResponse,
    ModelStreamInferResponse,
)
from neurald.service.inference.protocol.regions import PART_SIZE, REGION, RegionTable
from neurald.service.inference.protocol.string_contents import Strings, taken_strings
from neurald.service.inference.protocol.tensors import (
    BINARY_OUTPUT,
    MAX_TENSORS,
    RESERVED_PREFIX,
    Bytes,
    InferenceAnswer,
    InferenceRequest,
    InputBytes,
    InputTensor,
    Parameter,
    RegionPart,
    WantedOutput,
    checked_shape,
    number_fault,
    quoted,
    require_few_parameters,
)

#: The field of the elements of a string tensor.
_STRINGS: Final = "bytes_contents"
#: The tag of an input: field 5, delimited.
_INPUT: Final = 5 << 3 | 2
#: The tag of raw_input_contents: field 7, delimited. That of raw_output_contents: field 6.
_RAW_INPUT: Final = 7 << 3 | 2
_RAW_OUTPUT: Final = 6 << 3 | 2
_DELIMITED: Final = 2
_VARINT: Final = 0
_FIXED: Final = {1: 8, 5: 4}
#: Asks for an answer of a stream that only says that it was the last one.
_FINAL_RESPONSE: Final = "triton_enable_empty_final_response"
#: The most fields of a message besides tensors, and the most strings and nested messages in them.
_MAX_FIELDS: Final = 1 << 14
_MAX_PARTS: Final = 1 << 18
#: Messages up to this size are decoded without counting their parts first.
_SMALL_BYTES: Final = 1 << 12
#: How many descriptions of answers are kept.
_KEPT_DESCRIPTIONS: Final = 256
#: Parameters from here on have no sign.
_SIGNED_END: Final = 1 << 63

#: Name, type and shape of an output.
_Described = tuple[str, str, tuple[int, ...]]


def decode_request(data: bytes, regions: RegionTable) -> InferenceRequest:
    """Decodes a ModelInferRequest.

    Raises:
        ServiceError: it is not valid.
    """
    texts: dict[int, Strings] = {}
    if len(data) <= _SMALL_BYTES:
        message = decode(ModelInferRequest, data)
        raw = [memoryview(each) for each in message.raw_input_contents]
    else:
        rest, raw, texts = _split(data)
        message = decode(ModelInferRequest, rest)
    if len(message.inputs) > MAX_TENSORS or len(message.outputs) > MAX_TENSORS:
        raise ServiceError(Status.INVALID, f"a request has more than {MAX_TENSORS} inputs or outputs")
    parameters = decode_parameters(message.parameters)
    _check_parameters(parameters)
    return InferenceRequest(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        parameters=parameters,
        inputs=_inputs(message, raw, texts, regions),
        outputs=tuple(_wanted(each, regions) for each in message.outputs),
    )


def decode(kind: Any, data: bytes) -> Any:
    """Decodes a message that is not trusted.

    Raises:
        ServiceError: it is not such a message.
    """
    try:
        if len(data) > _SMALL_BYTES:
            count_parts(kind, data, _MAX_PARTS)
        return kind.FromString(data)
    except (DecodeError, Error) as error:
        raise ServiceError(Status.INVALID, f"the request is not understood: {error}") from None


def _split(data: bytes) -> tuple[bytes, list[memoryview], dict[int, Strings]]:
    """Returns the message without most of its tensors, and these.

    Returns:
        The rest, the raw tensors, and the elements of large string tensors by the position of the
            input.
    """
    view = memoryview(data)
    raw: list[memoryview] = []
    texts: dict[int, Strings] = {}
    rest: list[memoryview | bytes] = []
    inputs = 0
    at, end = 0, len(data)
    fields = 0
    try:
        while at < end:
            start = at
            tag, at = _varint(data, at)
            wire_type = tag & 7
            if wire_type == _DELIMITED:
                length, at = _varint(data, at)
                at += length
                if at > end:
                    raise IndexError
                if tag == _RAW_INPUT:
                    raw.append(view[at - length : at])
                    if len(raw) > MAX_TENSORS:
                        raise ServiceError(Status.INVALID, f"a request has more than {MAX_TENSORS} inputs")
                    continue
                if tag == _INPUT:
                    inputs += 1
                    taken = (
                        taken_strings(view[at - length : at], _MAX_PARTS) if length > _SMALL_BYTES else None
                    )
                    if taken is not None:
                        tensor, texts[inputs - 1] = taken
                        rest += (bytes((_INPUT,)), encoded_varint(len(tensor)), tensor)
                        continue
            elif wire_type == _VARINT:
                _, at = _varint(data, at)
            elif wire_type in _FIXED:
                at += _FIXED[wire_type]
            else:
                raise IndexError
            fields += 1
            if fields > _MAX_FIELDS:
                raise ServiceError(Status.INVALID, f"a request has more than {_MAX_FIELDS} fields")
            rest.append(view[start:at])
    except IndexError:
        raise ServiceError(
            Status.INVALID, f"the request is not understood: its {end} bytes end within a field"
        ) from None
    return b"".join(rest), raw, texts


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError


def _check_parameters(parameters: dict[str, Parameter]) -> None:
    """Raises ServiceError unless the protocol's own parameters of a request are right."""
    for key, value in parameters.items():
        if key == _FINAL_RESPONSE:
            if not isinstance(value, bool):
                raise ServiceError(
                    Status.INVALID, f"invalid value type for '{key}' parameter, expected bool_param."
                )
        elif key.startswith(RESERVED_PREFIX):
            raise ServiceError(
                Status.INVALID,
                f"parameter keys starting with '{RESERVED_PREFIX}' are reserved for Triton usage. Only the "
                f"following keys starting with '{RESERVED_PREFIX}' are allowed: {_FINAL_RESPONSE}; this is "
                f"{quoted(key)}",
            )


def decode_parameters(given: Any) -> dict[str, Parameter]:
    """Returns the parameters of a message as values.

    Raises:
        ServiceError: one has no value, or there are too many.
    """
    require_few_parameters(len(given))
    result: dict[str, Parameter] = {}
    for key, parameter in given.items():
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            raise ServiceError(Status.INVALID, f"the parameter {quoted(key)} has no value")
        result[key] = getattr(parameter, choice)
    return result


def _inputs(
    message: Any, raw: list[memoryview], texts: Mapping[int, Strings], regions: RegionTable
) -> tuple[InputTensor, ...]:
    result: list[InputTensor] = []
    used = 0
    for position, each in enumerate(message.inputs):
        name = each.name
        shape = checked_shape(name, each.shape)
        source: InputBytes
        region = _part_of(name, decode_parameters(each.parameters), regions) if each.parameters else None
        if region is not None:
            if each.HasField("contents"):
                raise ServiceError(
                    Status.INVALID,
                    f"unexpected 'content' provided when using shared memory for input tensor {quoted(name)} for "
                    f"model {quoted(message.model_name)}",
                )
            source = region
        elif raw:
            if each.HasField("contents"):
                raise ServiceError(
                    Status.INVALID,
                    f"contents field must not be specified when using raw_input_contents for {quoted(name)}",
                )
            if used == len(raw):
                raise ServiceError(
                    Status.INVALID,
                    f"raw_input_contents has {len(raw)} entries, which are fewer than the inputs",
                )
            source = Bytes(raw[used])
            used += 1
        else:
            source = Bytes(_typed(name, each.datatype, shape, each.contents, texts.get(position)))
        result.append(InputTensor(name=name, datatype=each.datatype, shape=shape, source=source))
    if used != len(raw):
        raise ServiceError(
            Status.INVALID,
            f"raw_input_contents has {len(raw)} entries; {used} are expected, one for each input that is "
            "not in shared memory",
        )
    return tuple(result)


def _typed(
    name: str, datatype: str, shape: tuple[int, ...], contents: Any, strings: Strings | None
) -> memoryview:
    """Returns the bytes of a tensor whose elements are in the fields of InferTensorContents.

    Args:
        name, datatype, shape: those of the tensor.
        contents: its contents.
        strings: its elements if they were taken from the contents.
    """
    field = content_field(datatype)
    if field is None or kind_of_datatype(datatype) is None:
        raise ServiceError(
            Status.INVALID, f"input {quoted(name)}: {quoted(datatype)} has to be sent in raw_input_contents"
        )
    others = [other.name for other, _ in contents.ListFields()] if strings is None else [_STRINGS]
    for other in others:
        if other != field:
            raise ServiceError(
                Status.INVALID,
                f"input {quoted(name)} is {datatype}, whose elements are in {field}, but has {other}",
            )
    elements = getattr(contents, field)
    count = math.prod(shape)
    given = len(elements) if strings is None else strings.number
    if given != count:
        raise ServiceError(
            Status.INVALID,
            f"input {quoted(name)} has {given} elements; the shape {list(shape)} has {count}",
        )
    if strings is not None:
        return memoryview(strings.content)
    if datatype == "BYTES":
        array = np.empty(count, object)
        array[:] = list(elements)
        return memoryview(encode_byte_strings(array))
    dtype = dtype_of(datatype)
    if field in ("int_contents", "uint_contents"):
        wide = np.fromiter(elements, np.int64, count)
        if count and dtype.itemsize < 4:
            limits = np.iinfo(dtype)
            if int(wide.min()) < limits.min or int(wide.max()) > limits.max:
                raise ServiceError(
                    Status.INVALID, f"input {quoted(name)} has elements beyond the range of {datatype}"
                )
        return memoryview(wide.astype(dtype).tobytes())
    return memoryview(np.fromiter(elements, dtype, count).tobytes())


def _wanted(each: Any, regions: RegionTable) -> WantedOutput:
    if not each.parameters:
        return WantedOutput(name=each.name)
    parameters = decode_parameters(each.parameters)
    region, classes = _part_of(each.name, parameters, regions), class_count(each.name, parameters)
    if not parameters.get("classification", True):
        raise ServiceError(
            Status.INVALID,
            f"invalid value for 'classification' parameter, expected >= 0: output {quoted(each.name)}: 0 "
            "classes are wanted; leave the parameter out for the values",
        )
    if region is not None and classes:
        raise ServiceError(
            Status.INVALID, f"output can't set both '{REGION}' and 'classification': {quoted(each.name)}"
        )
    return WantedOutput(name=each.name, region=region, classes=classes)


def _part_of(name: str, parameters: dict[str, Parameter], regions: RegionTable) -> RegionPart | None:
    """Returns the part of a region that a tensor's parameters name; None if they name none.

    Raises:
        ServiceError: they are not complete, or there is no such part.
    """
    fault = ""
    if REGION not in parameters:
        if PART_SIZE in parameters:
            fault = (
                f"'{PART_SIZE}' can not be specified without '{REGION}' parameter for tensor {quoted(name)}"
            )
    elif not isinstance(parameters[REGION], str):
        fault = (
            f"invalid value type for '{REGION}' parameter for tensor {quoted(name)}, expected string_param."
        )
    elif PART_SIZE not in parameters:
        fault = f"'{PART_SIZE}' must be specified along with '{REGION}' parameter for tensor {quoted(name)}"
    if fault:
        raise ServiceError(Status.INVALID, fault)
    return regions.part_of(name, parameters)


def class_count(name: str, parameters: dict[str, Parameter]) -> int:
    """Returns how many classes of an output are wanted; 0 if its values are.

    Raises:
        ServiceError: the parameter is not such a number.
    """
    count = parameters.get("classification", 0)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 2**31:
        raise ServiceError(
            Status.INVALID,
            f"{number_fault('classification', count)}: output {quoted(name)}: classification is {count!r}; an "
            "integer from 0 to 2^31 is expected",
        )
    return count


def encode_answer(answer: InferenceAnswer) -> bytes:
    """Encodes a ModelInferResponse.

    Raises:
        ServiceError: an output does not fit into its region of shared memory.
    """
    described: list[_Described] = []
    parts: list[bytes | memoryview] = [b""]
    for output in answer.outputs:
        described.append((output.name, output.datatype, output.shape))
        data: memoryview | bytes = output.data
        if output.written_to_region():
            # Clients expect an entry for each output, and those in C++ crash without.
            data = b""
        parts += (bytes((_RAW_OUTPUT,)), encoded_varint(len(data)), data)
    parts[0] = _description(answer.model, answer.version, tuple(described))
    if answer.id or answer.parameters:
        # Fields of a message may come in any order.
        own = ModelInferResponse(id=answer.id)
        for key, value in answer.parameters.items():
            if key != BINARY_OUTPUT:  # which says nothing over gRPC
                set_parameter(own.parameters[key], value)
        parts.append(own.SerializeToString())
    return b"".join(parts)


@lru_cache(maxsize=_KEPT_DESCRIPTIONS)
def _description(model: str, version: str, outputs: tuple[_Described, ...]) -> bytes:
    """Encodes what answers of a model mostly have in common: all but id, parameters and tensors."""
    message = ModelInferResponse(model_name=model, model_version=version)
    for name, datatype, shape in outputs:
        message.outputs.add(name=name, datatype=datatype, shape=shape)
    encoded: bytes = message.SerializeToString()
    return encoded


def set_parameter(target: Any, value: Parameter) -> None:
    """Writes a value into an InferParameter."""
    if isinstance(value, bool):
        target.bool_param = value
    elif isinstance(value, int):
        if value < _SIGNED_END:
            target.int64_param = value
        else:
            target.uint64_param = value
    elif isinstance(value, float):
        target.double_param = value
    else:
        target.string_param = value


def _last() -> bytes:
    message = ModelInferResponse()
    set_parameter(message.parameters["triton_final_response"], value=True)
    encoded: bytes = message.SerializeToString()
    return encoded


#: What is appended to an answer of a stream. Fields that follow others in a message belong to it,
#: too.
_LAST: Final = _last()


def encode_stream_answer(answer: bytes) -> bytes:
    """Encodes a ModelStreamInferResponse with an encoded answer, the only one of its request."""
    size = len(answer) + len(_LAST)
    return b"".join((bytes((2 << 3 | _DELIMITED,)), encoded_varint(size), answer, _LAST))


def encode_stream_failure(request: InferenceRequest | None, message: str) -> bytes:
    """Encodes a ModelStreamInferResponse that says why a request of a stream has no answer.

    Args:
        request: None if it could not be decoded.
        message: the message for the client.
    """
    response = ModelStreamInferResponse(error_message=message)
    if request is not None:
        found = response.infer_response
        found.model_name, found.model_version, found.id = request.model, request.version, request.id
        found.MergeFromString(_LAST)
    encoded: bytes = response.SerializeToString()
    return encoded
