"""Requests and answers of `generate` and `generate_stream`: a JSON object of plain values.

Names of the request, and of its member `parameters`, that are inputs of the model are tensors, all
others are parameters. The answer has the outputs by name, a single element as itself and several as
a list.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from neurald.hal.lanes.opening import TensorDescription
from neurald.service.inference.protocol.element_types import datatype_of
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.json_elements import bytes_of_elements, json_elements
from neurald.service.inference.protocol.tensors import (
    BINARY_OUTPUT,
    RESERVED_PREFIX,
    Bytes,
    InferenceAnswer,
    InferenceRequest,
    InputTensor,
    Parameter,
    quoted,
    require_few_members,
    require_sound_parameters,
)

_ID: Final = "id"
_PARAMETERS: Final = "parameters"
_ENCODER: Final = msgspec.json.Encoder()
#: The most values of a request, which are parsed in one piece.
_MAX_VALUES: Final = 1 << 20
#: How escapes of characters begin that are written as two halves.
_HALVES: Final = (b"\\ud", b"\\uD")


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object, of which several may have one name."""


def decode_generate_request(
    model: str, version: str, body: bytes, inputs: Sequence[TensorDescription]
) -> InferenceRequest:
    """Decodes the body of a call.

    Args:
        model, version: the model and version of the path.
        body: the body of the request.
        inputs: the inputs of the model.

    Raises:
        ServiceError: it is not valid.
    """
    described = {each.name: each for each in inputs}
    request_id = ""
    parameters: dict[str, Parameter] = {}
    tensors: list[InputTensor] = []

    def take(name: str, value: Any) -> None:
        """Takes a tensor, if there is such an input, else a parameter."""
        if name in described:
            tensors.append(_tensor(described[name], value))
        else:
            parameters[name] = _parameter(name, value)

    for name, value in _members(body):
        if name in described or name not in (_ID, _PARAMETERS):
            take(name, value)
        elif name == _ID:
            if not isinstance(value, str):
                raise ServiceError(
                    Status.INVALID, "Unable to parse 'id': attempt to access JSON non-string as string"
                )
            request_id = value
        elif not isinstance(value, _Members):
            raise ServiceError(Status.INVALID, f"Expected JSON object for keyword: '{_PARAMETERS}'")
        else:
            try:
                for key, each in value:
                    take(key, each)
            except ServiceError as error:
                raise ServiceError(error.status, f"Converting keyword: '{_PARAMETERS}': {error}") from None
    require_sound_parameters(parameters)
    return InferenceRequest(
        model=model, version=version, id=request_id, parameters=parameters, inputs=tuple(tensors), outputs=()
    )


def encode_generate_answer(answer: InferenceAnswer) -> bytes:
    """Encodes an answer.

    Raises:
        ServiceError: a string is not text.
    """
    document: dict[str, Any] = {"model_name": answer.model, "model_version": answer.version}
    if answer.id:
        document[_ID] = answer.id
    document |= {key: value for key, value in answer.parameters.items() if key != BINARY_OUTPUT}
    for output in answer.outputs:
        document[output.name] = json_elements(output, unwraps=True)
    return _ENCODER.encode(document)


def _members(body: bytes) -> _Members:
    require_few_members(body)
    values = body.count(b",")
    if values > _MAX_VALUES:
        raise ServiceError(
            Status.INVALID,
            f"the request JSON has {values} values; {_MAX_VALUES} may be. Use the call infer with binary data",
        )
    try:
        found = json.loads(body.decode(), object_pairs_hook=_Members)
        if any(half in body for half in _HALVES):
            msgspec.json.decode(body)  # refuses half of a character, which no answer can have
    except RecursionError:
        raise ServiceError(Status.INVALID, "the request JSON is nested too deeply") from None
    except (ValueError, msgspec.DecodeError) as error:
        raise ServiceError(Status.INVALID, f"failed to parse the request JSON: {error}") from None
    if not isinstance(found, _Members):
        raise ServiceError(Status.INVALID, "failed to parse the request JSON: it is not an object")
    return found


def _tensor(described: TensorDescription, value: Any) -> InputTensor:
    """Returns an input of one element, or of those of a list."""
    datatype = datatype_of(described.kind)
    elements = value if isinstance(value, list) and not isinstance(value, _Members) else [value]
    shape = _shape(described, len(elements))
    return InputTensor(
        name=described.name,
        datatype=datatype,
        shape=shape,
        source=Bytes(bytes_of_elements(described.name, datatype, elements, len(elements))),
    )


def _shape(described: TensorDescription, count: int) -> tuple[int, ...]:
    """Returns the shape of some elements: the innermost open length takes what others leave."""
    lengths = list((-1,) if described.shape is None else described.shape)
    known = math.prod(length for length in lengths if length >= 0)
    left, rest = divmod(count, known) if known else (0, count)
    for place in reversed(range(len(lengths))):
        if lengths[place] < 0:
            lengths[place], left = left, 1
    if rest or left != 1:
        raise ServiceError(
            Status.INVALID,
            f"The schema can not convert input {quoted(described.name)} to tensor with proper shape: it has {count} "
            f"elements for {list(described.shape or ())}",
        )
    return tuple(lengths)


def _parameter(name: str, value: Any) -> Parameter:
    if not isinstance(value, bool | int | float | str):
        raise ServiceError(
            Status.INVALID,
            f"parameter {quoted(name)} has invalid type. It should be either 'int', 'bool', or 'string'.",
        )
    if name.startswith(RESERVED_PREFIX):
        raise ServiceError(
            Status.INVALID,
            f"parameter keys starting with '{RESERVED_PREFIX}' are reserved for Triton usage and should not be "
            f"specified: {quoted(name)}",
        )
    return value
