"""The parameters of calls over HTTP that are small JSON documents."""

import base64
from typing import Any

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import quoted
from neurald.service.inference.server.calls.calls import parse_json_parameters


def small_document(content: bytes) -> dict[str, Any]:
    """Parses a JSON object.

    Raises:
        ServiceError: it is not a JSON object, or is nested too deeply.
    """
    try:
        return parse_json_parameters(content)
    except RecursionError:
        raise ServiceError(Status.INVALID, "the request JSON is nested too deeply") from None


def load_parameter(key: str, value: Any) -> Any:
    """Returns a parameter of a call that loads a model, of which files are in base64."""
    if not isinstance(value, str):
        raise ServiceError(
            Status.INVALID, f"attempt to access JSON non-string as string: the parameter {quoted(key)}"
        )
    if not key.startswith("file:"):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise ServiceError(Status.INVALID, f"the parameter {quoted(key)} is not base64") from None


def setting_values(key: str, value: Any) -> tuple[str, ...]:
    """Returns the values that a setting of traces is given; none if it is cleared."""
    if value is None:
        return ()
    if key == "trace_level":
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ServiceError(
                Status.INVALID, f"attempt to access JSON non-array as array: '{key}' is a list of text"
            )
        return tuple(value)
    if not isinstance(value, str):
        raise ServiceError(Status.INVALID, f"attempt to access JSON non-string as string: {quoted(key)}")
    return (value,)


def is_size(value: object) -> bool:
    """Returns True if a value is a number of bytes."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
