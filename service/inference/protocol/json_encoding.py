"""Requests and answers over HTTP: JSON, optionally followed by the bytes of tensors."""

import math
from typing import Any, Final

import msgspec
import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.lanes.byte_strings import decode_byte_strings, encode_byte_strings
from neurald.service.inference.protocol.element_types import dtype_of, kind_of_datatype
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.grpc_encoding import class_count
from neurald.service.inference.protocol.regions import RegionTable
from neurald.service.inference.protocol.tensors import (
    MAX_TENSORS,
    Bytes,
    InferenceAnswer,
    InferenceRequest,
    InputBytes,
    InputTensor,
    OutputTensor,
    Parameter,
    WantedOutput,
    checked_shape,
    quoted,
)

_Parameters = dict[str, bool | int | float | str | None]


class _Input(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]
    parameters: _Parameters = {}
    data: msgspec.Raw = msgspec.Raw()


class _Output(msgspec.Struct):
    name: str
    parameters: _Parameters = {}


class _Request(msgspec.Struct):
    inputs: list[_Input]
    id: str = ""
    parameters: _Parameters = {}
    outputs: list[_Output] = []


_REQUEST: Final = msgspec.json.Decoder(_Request)
_FLAT: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "b": msgspec.json.Decoder(list[bool]),
    "i": msgspec.json.Decoder(list[int]),
    "u": msgspec.json.Decoder(list[int]),
    "f": msgspec.json.Decoder(list[float]),
}
#: Kinds of NumPy's arrays of which elements of a kind may be given.
_ACCEPTED: Final = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}
_ENCODER: Final = msgspec.json.Encoder()
#: The parameters that say how a tensor is sent, and are not passed on.
_BINARY_OUTPUT: Final = "binary_data_output"
_BINARY: Final = "binary_data"
_BINARY_SIZE: Final = "binary_data_size"


def decode_request(
    model: str, version: str, body: bytes, header_bytes: int | None, regions: RegionTable
) -> InferenceRequest:
    """Decodes the body of an inference.

    Args:
        model, version: of the path.
        body: of the request.
        header_bytes: length of the JSON, if bytes of tensors follow it; None if nothing does.
        regions: of shared memory.

    Raises:
        ServiceError: it is not valid.
    """
    view = memoryview(body)
    if header_bytes is not None and not 0 <= header_bytes <= len(body):
        raise ServiceError(
            Status.INVALID,
            f"Inference-Header-Content-Length is {header_bytes}; the body has {len(body)} bytes",
        )
    header, binary = (view, view[:0]) if header_bytes is None else (view[:header_bytes], view[header_bytes:])
    try:
        request = _REQUEST.decode(header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ServiceError(Status.INVALID, f"failed to parse the request JSON: {error}") from None
    if len(request.inputs) > MAX_TENSORS or len(request.outputs) > MAX_TENSORS:
        raise ServiceError(Status.INVALID, f"a request has more than {MAX_TENSORS} inputs or outputs")
    inputs: list[InputTensor] = []
    at = 0
    for each in request.inputs:
        given = _without_nulls(each.parameters)
        size = given.get(_BINARY_SIZE)
        shape = checked_shape(each.name, each.shape)
        region = regions.part_of(each.name, given)
        source: InputBytes
        if region is not None:
            source = region
        elif size is not None:
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(binary) - at:
                raise ServiceError(
                    Status.INVALID,
                    f"input {quoted(each.name)}: binary_data_size is {size!r}; {len(binary) - at} bytes are left",
                )
            source = Bytes(binary[at : at + size])
            at += size
        else:
            source = Bytes(_elements(each, shape))
        inputs.append(InputTensor(name=each.name, datatype=each.datatype, shape=shape, source=source))
    if at != len(binary):
        raise ServiceError(
            Status.INVALID,
            f"{len(binary)} bytes of tensors follow the JSON; its inputs have {at} by binary_data_size",
        )
    parameters = _without_nulls(request.parameters)
    by_default = bool(parameters.pop(_BINARY_OUTPUT, False))
    outputs: list[WantedOutput] = []
    for wanted in request.outputs:
        given = _without_nulls(wanted.parameters)
        outputs.append(
            WantedOutput(
                name=wanted.name,
                region=regions.part_of(wanted.name, given),
                is_binary=bool(given.get(_BINARY, by_default)),
                classes=class_count(wanted.name, given),
            )
        )
    if by_default:
        parameters[_BINARY_OUTPUT] = True
    return InferenceRequest(
        model=model,
        version=version,
        id=request.id,
        parameters=parameters,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )


def _without_nulls(parameters: _Parameters) -> dict[str, Parameter]:
    return {key: value for key, value in parameters.items() if value is not None}


def _elements(given: _Input, shape: tuple[int, ...]) -> memoryview:
    """Returns the bytes of a tensor whose elements are in the JSON, nested or not."""
    name = quoted(given.name)
    if kind_of_datatype(given.datatype) is None:
        raise ServiceError(Status.INVALID, f"input {name} has the datatype {quoted(given.datatype)}")
    if not memoryview(given.data).nbytes:
        raise ServiceError(
            Status.INVALID, f"input {name} has neither data nor binary_data_size nor a region of memory"
        )
    count = math.prod(shape)
    try:
        if given.datatype == "BYTES":
            return memoryview(_strings(name, msgspec.json.decode(given.data), count))
        dtype = dtype_of(given.datatype)
        elements: Any
        try:
            elements = _FLAT[dtype.kind].decode(given.data)
        except msgspec.ValidationError:
            elements = msgspec.json.decode(given.data)
        array = np.asarray(elements)
        if array.size != count:
            raise ServiceError(
                Status.INVALID, f"input {name} has {array.size} elements; the shape {list(shape)} has {count}"
            )
        if count and array.dtype.kind not in _ACCEPTED[dtype.kind]:
            raise ServiceError(Status.INVALID, f"input {name} has elements that are not {given.datatype}")
        if count and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if int(array.min()) < limits.min or int(array.max()) > limits.max:
                raise ServiceError(
                    Status.INVALID, f"input {name} has elements beyond the range of {given.datatype}"
                )
        with np.errstate(over="ignore"):
            return memoryview(array.astype(dtype).tobytes())
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError, TypeError) as error:
        raise ServiceError(Status.INVALID, f"input {name}: its data are not understood: {error}") from None


def _strings(name: str, nested: Any, count: int) -> bytes:
    """Encodes strings of a list, or of lists in lists."""
    found: list[bytes] = []
    waiting: list[Any] = [nested]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(reversed(each))
        elif isinstance(each, str):
            found.append(each.encode())
        else:
            raise ServiceError(Status.INVALID, f"input {name} has elements that are not strings")
    if len(found) != count:
        raise ServiceError(Status.INVALID, f"input {name} has {len(found)} strings; its shape has {count}")
    strings = np.empty(count, object)
    strings[:] = found
    return encode_byte_strings(strings)


def encode_answer(answer: InferenceAnswer) -> tuple[bytes, int | None]:
    """Encodes an answer.

    Returns:
        The body, and the length of its JSON if bytes of tensors follow.

    Raises:
        ServiceError: an output does not fit into its region, or a string is not text.
    """
    parameters = dict(answer.parameters)
    by_default = bool(parameters.pop(_BINARY_OUTPUT, False))
    outputs: list[dict[str, Any]] = []
    binary: list[memoryview] = []
    for output in answer.outputs:
        described: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": list(output.shape),
        }
        wants_binary = by_default if output.wanted is None else bool(output.wanted.is_binary)
        if output.written_to_region():
            described["parameters"] = {"shared_memory_byte_size": output.data.nbytes}
        elif wants_binary:
            described["parameters"] = {_BINARY_SIZE: output.data.nbytes}
            binary.append(output.data)
        else:
            described["data"] = _listed(output)
        outputs.append(described)
    document: dict[str, Any] = {"model_name": answer.model, "model_version": answer.version}
    if answer.id:
        document["id"] = answer.id
    if parameters:
        document["parameters"] = parameters
    document["outputs"] = outputs
    header = _ENCODER.encode(document)
    if not binary:
        return header, None
    return b"".join((header, *binary)), len(header)


def _listed(output: OutputTensor) -> list[Any]:
    if output.datatype != "BYTES":
        found: list[Any] = np.frombuffer(output.data, dtype_of(output.datatype)).tolist()
        return found
    strings: list[Any]
    try:
        strings = decode_byte_strings(output.data, output.shape).reshape(-1).tolist()
        return [each.decode() for each in strings]
    except (UnicodeDecodeError, BadData):
        raise ServiceError(
            Status.INVALID,
            f"output {quoted(output.name)} has strings that are not text; ask for it with binary_data",
        ) from None
