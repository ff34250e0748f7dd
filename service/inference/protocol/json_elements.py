"""The elements of tensors in JSON: lists of numbers, truth values or strings, nested or not."""

import json
import math
from typing import Any, Final

import msgspec
import numpy as np

from neurald.hal.decoding import json_decoder
from neurald.hal.errors import BadData
from neurald.hal.lanes.byte_strings import decode_byte_strings, encode_byte_strings
from neurald.service.inference.protocol.element_types import dtype_of, kind_of_datatype
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import OutputTensor, quoted

_FLAT: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "O": json_decoder(list[str]),
    "b": json_decoder(list[bool]),
    "i": json_decoder(list[int]),
    "u": json_decoder(list[int]),
    "f": json_decoder(list[float]),
}
#: Kinds of NumPy's arrays, and types of Python, of which elements of a kind may be given.
_ACCEPTED: Final = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}
_ACCEPTED_TYPES: Final[dict[str, set[type]]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}
#: What Triton calls the elements of NumPy's kinds.
_ELEMENT_NOUNS: Final = {"b": "boolean", "i": "signed-integer", "u": "unsigned-integer", "f": "number"}
#: How many bytes of elements are decoded at a time.
_PART_BYTES: Final = 1 << 18
#: How deep the lists of a tensor's elements may be nested.
_MAX_NESTING: Final = 100
_SPECIAL_VALUES: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
#: The most dimensions of NumPy's arrays, in every version of it.
_MAX_RANK: Final = 32


def decoded_elements(name: str, datatype: str, data: msgspec.Raw, shape: tuple[int, ...]) -> memoryview:
    """Returns the bytes of a tensor.

    Args:
        name: the name of the input, for errors.
        datatype: the datatype of the request, which the protocol may not have.
        data: the JSON of the elements, nested or not.
        shape: the shape of the tensor.

    Raises:
        ServiceError: there are more or fewer elements, or they are of another type.
    """
    if kind_of_datatype(datatype) is None:
        raise ServiceError(Status.INVALID, f"input {quoted(name)} has the datatype {quoted(datatype)}")
    kind = "O" if datatype == "BYTES" else dtype_of(datatype).kind
    is_checked = True
    try:
        try:
            if kind != "O" and memoryview(data).nbytes > _PART_BYTES:
                return _in_parts(name, datatype, data, math.prod(shape))
            elements: list[Any] = _FLAT[kind].decode(data)
        except msgspec.ValidationError:
            is_checked = False
            elements = msgspec.json.decode(data)
            if not isinstance(elements, list):
                raise ServiceError(
                    Status.INVALID, "Unable to parse 'data': attempt to access JSON non-array as array"
                ) from None
            if kind == "f" and b'"' in bytes(data):
                elements = [
                    _SPECIAL_VALUES.get(each, each) if isinstance(each, str) else each
                    for each in _flattened(elements)
                ]
            elif kind == "O" or _depth(elements) > _MAX_RANK:
                elements = _flattened(elements)
    except RecursionError:
        raise too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServiceError(
            Status.INVALID, f"input {quoted(name)}: its data are not understood: {error}"
        ) from None
    return bytes_of_elements(name, datatype, elements, math.prod(shape), is_checked=is_checked)


def _in_parts(name: str, datatype: str, data: msgspec.Raw, count: int) -> memoryview:
    """Returns the bytes of a tensor with many elements that are not nested.

    A part is decoded at a time, so that other threads can run between, and the numbers of all need
    not be objects at the same time.

    Raises:
        msgspec.ValidationError: they are nested, in no list, or of another type.
        ServiceError: there are more or fewer.
    """
    content = bytes(memoryview(data))
    start, end = content.find(b"[") + 1, content.rfind(b"]")
    if content[:start].strip() != b"[" or content.find(b"[", start, end) >= 0:
        raise msgspec.ValidationError("the elements are nested, or not in a list")
    decoder = _FLAT[dtype_of(datatype).kind]
    parts: list[memoryview] = []
    found = 0
    while start <= end:
        comma = content.find(b",", start + _PART_BYTES, end)
        stop = end if comma < 0 else comma
        elements = decoder.decode(b"[%b]" % content[start:stop])
        found += len(elements)
        if found > count or (not elements and (parts or stop < end)):
            raise _wrong_count(found, count)
        parts.append(bytes_of_elements(name, datatype, elements, len(elements), is_checked=True))
        start = stop + 1
    if found != count:
        raise _wrong_count(found, count)
    return memoryview(b"".join(parts))


def bytes_of_elements(
    name: str, datatype: str, elements: list[Any], count: int, *, is_checked: bool = False
) -> memoryview:
    """Returns the bytes of a tensor with these elements.

    Args:
        name: the name of the input, for errors.
        datatype: the datatype of the protocol, which models have.
        elements: the elements of JSON; numbers may be in lists in lists.
        count: how many are expected.
        is_checked: whether they are known to be of the type. Otherwise there may be true and false
            among numbers, which NumPy takes for 1 and 0.

    Raises:
        ServiceError: there are more or fewer, or they are of another type.
    """
    if datatype == "BYTES":
        if len(elements) != count:
            raise _wrong_count(len(elements), count)
        if not all(isinstance(each, str) for each in elements):
            raise _wrong_type(name, datatype, "string")
        strings = np.empty(count, object)
        strings[:] = [each.encode() for each in elements]
        return memoryview(encode_byte_strings(strings))
    dtype = dtype_of(datatype)
    try:
        array = np.asarray(elements)
        if array.size != count:
            raise _wrong_count(array.size, count)
        is_common = array.dtype.kind in _ACCEPTED[dtype.kind]
        if count and not (is_common and is_checked):
            exact = np.asarray(elements, object)
            if not _ACCEPTED_TYPES[dtype.kind].issuperset(map(type, exact.ravel().tolist())):
                raise _wrong_type(name, datatype, _ELEMENT_NOUNS[dtype.kind])
            # NumPy has no common type of the integers of 64 bits with a sign and those without.
            array = array if is_common else exact
        if count and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if int(array.min()) < limits.min or int(array.max()) > limits.max:
                raise ServiceError(
                    Status.INVALID, f"input {quoted(name)} has elements beyond the range of {datatype}"
                )
        with np.errstate(over="ignore"):
            return memoryview(array.astype(dtype).tobytes())
    except (ValueError, OverflowError, TypeError) as error:
        raise ServiceError(
            Status.INVALID, f"input {quoted(name)}: its data are not understood: {error}"
        ) from None


def _depth(nested: Any) -> int:
    """Returns how deep the first element of lists in lists is."""
    depth = 0
    while isinstance(nested, list) and nested:
        nested, depth = nested[0], depth + 1
    return depth


def _flattened(nested: list[Any]) -> list[Any]:
    """Returns the elements of a list, or of lists in lists, in order."""
    found: list[Any] = []
    waiting = [iter(nested)]
    while waiting:
        for each in waiting[-1]:
            if isinstance(each, list):
                if len(waiting) == _MAX_NESTING:
                    raise too_deep()
                waiting.append(iter(each))
                break
            found.append(each)
        else:
            waiting.pop()
    return found


def too_deep() -> ServiceError:
    """Returns the error of JSON whose lists are nested too deeply."""
    return ServiceError(Status.INVALID, f"JSON nesting depth exceeds maximum allowed limit ({_MAX_NESTING})")


def _wrong_type(name: str, datatype: str, noun: str) -> ServiceError:
    return ServiceError(
        Status.INVALID,
        f"Unable to parse 'data': attempt to access JSON non-{noun} as {noun}: input {quoted(name)} has elements "
        f"that are not {datatype}",
    )


def _wrong_count(found: int, expected: int) -> ServiceError:
    """Returns the error of too few or too many elements, in all of Triton's words and no others.

    Tests of its clients compare the whole text.
    """
    return ServiceError(
        Status.INVALID,
        "Failed to parse 'data' field: shape does not match true shape"
        if found < expected
        else "Unable to parse 'data': Shape does not match true shape of 'data' field",
    )


def json_elements(output: OutputTensor, *, unwraps: bool = False) -> Any:
    """Returns the elements of an output in one list, for the encoder.

    Args:
        output: the output.
        unwraps: whether a single element is returned without a list.

    Raises:
        ServiceError: a string is not text.
    """
    elements: list[Any]
    is_finite = True
    if output.datatype != "BYTES":
        array = np.frombuffer(output.data, dtype_of(output.datatype))
        elements = array.tolist()
        is_finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
    else:
        try:
            strings: list[Any] = decode_byte_strings(output.data, output.shape).reshape(-1).tolist()
            elements = [each.decode() for each in strings]
        except (UnicodeDecodeError, BadData):
            raise ServiceError(
                Status.INVALID,
                f"output {quoted(output.name)} has strings that are not text; ask for it with binary_data",
            ) from None
    value = elements[0] if unwraps and len(elements) == 1 else elements
    # The encoder would write null for others.
    return value if is_finite else msgspec.Raw(json.dumps(value).encode())
