"""Requests and answers over HTTP: JSON, optionally followed by the bytes of tensors."""

import re
from typing import Any, Final

import msgspec

from neurald.hal.decoding import json_decoder
from neurald.hal.errors import copied
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.grpc_encoding import class_count
from neurald.service.inference.protocol.json_elements import decoded_elements, json_elements, too_deep
from neurald.service.inference.protocol.regions import REGION, RegionTable
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
    WantedOutput,
    checked_shape,
    quoted,
    require_few_members,
    require_sound_parameters,
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


_REQUEST: Final = json_decoder(_Request)
#: What msgspec says of a member of a request that is missing, or of another type.
_MISSING_MEMBER: Final = re.compile(r"Object missing required field `(\w+)`")
_WRONG_MEMBER: Final = re.compile(r"Expected `(str|int|array)`, got `.*` - at `\$.*\b(\w+)(?:\[\d+\])?`")
#: What Triton calls the types that members have.
_NOUNS: Final = {"str": "string", "int": "unsigned-integer", "array": "array"}
_ENCODER: Final = msgspec.json.Encoder()
#: Longer JSON is searched for too many members before it is parsed.
_SHORT_BYTES: Final = 1 << 18
#: Numbers that JSON has not, and strings, in which they do not count. The last string may not end.
_SPECIAL_NUMBERS: Final = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\Z)|-?Infinity\b|NaN\b', re.DOTALL)
#: Longer JSON may not have them, since it would keep other threads waiting.
_MAX_SPECIAL_BYTES: Final = 4 << 20
#: The parameters that say how a tensor is sent, and are not passed on.
_BINARY: Final = "binary_data"
_BINARY_SIZE: Final = "binary_data_size"


class ParsedRequest(msgspec.Struct, frozen=True, eq=False):
    """The JSON of an inference, whose meaning is not checked yet.

    Attributes:
        request: its fields.
        elements: the bytes of each input whose elements are in the JSON, or what is wrong with
            them; None for other inputs.
        binary: what follows the JSON; None if nothing may.
    """

    request: _Request
    elements: tuple[memoryview | ServiceError | None, ...]
    binary: memoryview | None


def parse_request(body: bytes, header_bytes: int | None) -> ParsedRequest:
    """Parses the body of an inference, which takes time if it has much JSON.

    Any thread may call this.

    Args:
        body: the body of the request.
        header_bytes: length of the JSON, if bytes of tensors follow it; None if nothing does.

    Raises:
        ServiceError: it is not JSON, or not of a request.
    """
    view = memoryview(body)
    if header_bytes is not None and not 0 <= header_bytes <= len(body):
        raise ServiceError(
            Status.INVALID,
            f"inference header size should be in range (0, {len(body)}), got: {header_bytes}",
        )
    if view.nbytes > _SHORT_BYTES:
        require_few_members(body if header_bytes is None else body[:header_bytes])
    header, binary = (view, view[:0]) if header_bytes is None else (view[:header_bytes], view[header_bytes:])
    try:
        try:
            request = _REQUEST.decode(header)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            special = _with_special_numbers_as_text(header)
            if special is None:
                raise
            request = _REQUEST.decode(special)
    except RecursionError:
        raise too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServiceError(Status.INVALID, _words(str(error))) from None
    if len(request.inputs) > MAX_TENSORS or len(request.outputs) > MAX_TENSORS:
        raise ServiceError(Status.INVALID, f"a request has more than {MAX_TENSORS} inputs or outputs")
    elements = tuple(map(_parsed_elements, request.inputs))
    return ParsedRequest(request, elements, None if header_bytes is None else binary)


def _words(fault: str) -> str:
    """Returns what is wrong with a request, in Triton's words where it has some."""
    missing, wrong = _MISSING_MEMBER.match(fault), _WRONG_MEMBER.match(fault)
    if missing:
        return f"Unable to parse '{missing[1]}': attempt to access non-existing object member '{missing[1]}': {fault}"
    if wrong:
        noun = _NOUNS[wrong[1]]
        return f"Unable to parse '{wrong[2]}': attempt to access JSON non-{noun} as {noun}: {fault}"
    return f"failed to parse the request JSON: {fault}"


def _with_special_numbers_as_text(header: memoryview) -> bytes | None:
    """Returns JSON with infinite numbers and NaN as text; None if it has none."""
    if header.nbytes > _MAX_SPECIAL_BYTES:
        return None
    content = bytes(header)
    changed = _SPECIAL_NUMBERS.sub(
        lambda match: match[0] if match[0].startswith(b'"') else b'"%b"' % match[0], content
    )
    return None if changed == content else changed


def _parsed_elements(given: _Input) -> memoryview | ServiceError | None:
    parameters = _without_nulls(given.parameters)
    if not memoryview(given.data).nbytes or REGION in parameters or _BINARY_SIZE in parameters:
        return None
    try:
        return decoded_elements(
            given.name, given.datatype, given.data, checked_shape(given.name, given.shape)
        )
    except ServiceError as error:
        return ServiceError(error.status, str(error))


def checked_request(
    model: str, version: str, parsed: ParsedRequest, regions: RegionTable
) -> InferenceRequest:
    """Checks what the parsed body of an inference means.

    Args:
        model, version: the model and version of the path.
        parsed: see `parse_request`.
        regions: the regions of shared memory.

    Raises:
        ServiceError: it is not valid.
    """
    request = parsed.request
    inputs = _checked_inputs(model, parsed, regions)
    parameters = _without_nulls(request.parameters)
    for key in parameters:
        if key.startswith(RESERVED_PREFIX):
            raise ServiceError(
                Status.INVALID,
                f"parameter keys starting with '{RESERVED_PREFIX}' are reserved for Triton usage and should not be "
                f"specified: {quoted(key)}",
            )
    # It is for a request that names no outputs.
    if _flag(BINARY_OUTPUT, parameters.pop(BINARY_OUTPUT, False)):
        parameters[BINARY_OUTPUT] = True
    return InferenceRequest(
        model=model,
        version=version,
        id=request.id,
        parameters=parameters,
        inputs=tuple(inputs),
        outputs=tuple(_wanted_output(each, regions) for each in request.outputs),
    )


def _checked_inputs(model: str, parsed: ParsedRequest, regions: RegionTable) -> list[InputTensor]:
    """Checks the inputs of a request, which take all of its binary data; see `checked_request`."""
    binary = memoryview(b"") if parsed.binary is None else parsed.binary
    inputs: list[InputTensor] = []
    at = 0
    for each, elements in zip(parsed.request.inputs, parsed.elements, strict=True):
        given = _without_nulls(each.parameters)
        size = given.get(_BINARY_SIZE)
        _require_one_source(each, given)
        if any(length < 0 for length in each.shape):
            raise ServiceError(
                Status.INVALID,
                "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer: input "
                f"{quoted(each.name)} has a negative length",
            )
        shape = checked_shape(each.name, each.shape)
        region = regions.part_of(each.name, given)
        source: InputBytes
        if region is not None:
            source = region
        elif size is not None:
            left = None if parsed.binary is None else len(binary) - at
            end = at + _checked_binary_size(model, each.name, size, left)
            source = Bytes(binary[at:end])
            at = end
        elif isinstance(elements, ServiceError):
            raise copied(elements)
        else:
            source = Bytes(
                decoded_elements(each.name, each.datatype, each.data, shape) if elements is None else elements
            )
        inputs.append(InputTensor(name=each.name, datatype=each.datatype, shape=shape, source=source))
    if at != len(binary):
        raise ServiceError(
            Status.INVALID,
            f"unexpected additional input data for model {quoted(model)}: {len(binary)} bytes follow the JSON; "
            f"its inputs have {at} by binary_data_size",
        )
    return inputs


def _checked_binary_size(model: str, name: str, size: Parameter, left_bytes: int | None) -> int:
    """Checks the `binary_data_size` of an input, and returns it.

    Args:
        model: the model of the path.
        name: the name of the input.
        size: what the request has.
        left_bytes: how many bytes the inputs before leave; None if there are no binary data.

    Raises:
        ServiceError: it is no size, or larger than that.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ServiceError(
            Status.INVALID,
            f"Unable to parse 'binary_data_size': input {quoted(name)} has {size!r}; an integer of at least 0 "
            "is expected",
        )
    if size and left_bytes is None:
        raise ServiceError(
            Status.INVALID,
            "must specify valid 'Infer-Header-Content-Length' in request header and 'binary_data_size' when "
            f"passing inputs in binary data format: input {quoted(name)}",
        )
    missing = size - (left_bytes or 0)
    if missing > 0:
        raise ServiceError(
            Status.INVALID,
            f"unexpected size for input {quoted(name)}, expecting {missing} additional bytes for model "
            f"{quoted(model)}",
        )
    return size


def _wanted_output(wanted: _Output, regions: RegionTable) -> WantedOutput:
    """Checks an output of a request; see `checked_request`."""
    given = _without_nulls(wanted.parameters)
    for other in ("classification", _BINARY):
        if REGION in given and given.get(other):
            raise ServiceError(
                Status.INVALID, f"Output can't set both '{REGION}' and '{other}': {quoted(wanted.name)}"
            )
    return WantedOutput(
        name=wanted.name,
        region=regions.part_of(wanted.name, given),
        is_binary=_flag(_BINARY, given.get(_BINARY, False)),
        classes=class_count(wanted.name, given),
    )


def _flag(name: str, value: Parameter) -> bool:
    """Returns a parameter that is true or false; raises ServiceError for others, such as text."""
    if not isinstance(value, bool):
        raise ServiceError(
            Status.INVALID,
            f"Unable to parse '{name}': attempt to access JSON non-boolean as boolean: it is {value!r}",
        )
    return value


def _without_nulls(parameters: _Parameters) -> dict[str, Parameter]:
    found = {key: value for key, value in parameters.items() if value is not None}
    require_sound_parameters(found)
    return found


def _require_one_source(given: _Input, parameters: dict[str, Parameter]) -> None:
    """Raises ServiceError unless an input says in exactly one way where its elements are."""
    found = ["data"] if memoryview(given.data).nbytes else []
    found += (name for name in (_BINARY_SIZE, REGION) if name in parameters)
    if len(found) != 1:
        said = "set " + " ".join(map(quoted, found)) if found else "no field is set"
        raise ServiceError(
            Status.INVALID,
            "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', "
            f"'shared_memory_region' in 'parameters'. But {said}: input {quoted(given.name)}",
        )


def encode_answer(answer: InferenceAnswer) -> tuple[bytes, int | None]:
    """Encodes an answer.

    Returns:
        The body, and the length of its JSON if bytes of tensors follow.

    Raises:
        ServiceError: an output does not fit into its region, or a string is not text.
    """
    parameters = dict(answer.parameters)
    by_default = _flag(BINARY_OUTPUT, parameters.pop(BINARY_OUTPUT, False))
    outputs: list[dict[str, Any]] = []
    binary: list[memoryview] = []
    for output in answer.outputs:
        described: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": list(output.shape),
        }
        wants_binary = by_default if output.wanted is None else output.wanted.is_binary
        # One in a region has no parameters, among which Triton's client in C++ expects this size.
        if not output.written_to_region():
            if wants_binary:
                described["parameters"] = {_BINARY_SIZE: output.data.nbytes}
                binary.append(output.data)
            else:
                described["data"] = json_elements(output)
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
