"""Decodes values of types of msgspec, also in several threads at once.

msgspec keeps with a class what it needs to decode it. It begins to do so at the class's first use,
before it knows the types of all fields, and it runs Python code meanwhile: another thread that
decodes the class then reads what is not there yet, which ends the process with a segmentation
fault. So types are prepared under a lock here, and nothing else may decode them.
"""

from typing import Any, Final, TypeVar, overload

import msgspec

from neurald.hal.process.fork import forkable_lock

_T = TypeVar("_T")

_lock: Final = forkable_lock()
_json: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}
_msgpack: Final[dict[Any, msgspec.msgpack.Decoder[Any]]] = {}


@overload
def json_decoder(kind: type[_T]) -> msgspec.json.Decoder[_T]: ...
@overload
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Returns the decoder of JSON for a type, which threads may share."""
    decoder = _json.get(kind)
    if decoder is None:
        with _lock:
            decoder = _json[kind] = msgspec.json.Decoder(kind)
    return decoder


@overload
def msgpack_decoder(kind: type[_T]) -> msgspec.msgpack.Decoder[_T]: ...
@overload
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]: ...
def msgpack_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Returns the decoder of MessagePack for a type, which threads may share."""
    decoder = _msgpack.get(kind)
    if decoder is None:
        with _lock:
            decoder = _msgpack[kind] = msgspec.msgpack.Decoder(kind)
    return decoder


@overload
def from_json(content: bytes | str, kind: type[_T]) -> _T: ...
@overload
def from_json(content: bytes | str, kind: Any) -> Any: ...
def from_json(content: bytes | str, kind: Any) -> Any:
    """Decodes JSON to a type.

    Raises:
        records.DECODE_ERRORS: the content is not what is expected.
    """
    return json_decoder(kind).decode(content)


@overload
def from_msgpack(content: bytes | bytearray | memoryview, kind: type[_T]) -> _T: ...
@overload
def from_msgpack(content: bytes | bytearray | memoryview, kind: Any) -> Any: ...
def from_msgpack(content: bytes | bytearray | memoryview, kind: Any) -> Any:
    """Decodes MessagePack to a type.

    Raises:
        records.DECODE_ERRORS: the content is not what is expected.
    """
    return msgpack_decoder(kind).decode(content)


@overload
def converted(value: object, kind: type[_T]) -> _T: ...
@overload
def converted(value: object, kind: Any) -> Any: ...
def converted(value: object, kind: Any) -> Any:
    """Converts lists, mappings and numbers to a type.

    Raises:
        msgspec.ValidationError: the value is not what is expected.
    """
    json_decoder(kind)  # prepares the type
    return msgspec.convert(value, kind)
