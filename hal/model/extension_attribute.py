"""Attribute values of vendor extensions, set by an application on a compilation or an execution.

Android NN: `ANeuralNetworksCompilation_addExtensionAttribute` and
`ANeuralNetworksExecution_addExtensionAttribute`. Only the device that declares an attribute knows
the meaning of its bytes. It finds the values in `PrepareOptions.attributes` or
`ExecuteOptions.attributes`, and rejects unknown content with BadData. It never receives an
attribute that it does not declare, or the same one twice.
"""

from collections.abc import Sequence

from msgspec import Struct

from neurald.hal.errors import BadData
from neurald.hal.model.extension import AttributeUse, Extension

#: Maximum number of attributes of one compilation or execution, and of bytes in all their values.
MAX_VALUES = 64
MAX_VALUE_BYTES = 1 << 16


class AttributeValue(Struct, frozen=True, kw_only=True):
    """The value of one attribute.

    Attributes:
        extension: the extension that declares the attribute.
        code: the code of the attribute, within the extension.
        value: bytes that only the device interprets.
    """

    extension: Extension
    code: int
    value: bytes


def check_attributes(values: Sequence[AttributeValue], use: AttributeUse) -> None:
    """Checks all values of one compilation, or of one execution.

    Raises:
        BadData: an attribute is not declared or set twice, or the values are too many or too large.
    """
    if len(values) > MAX_VALUES:
        raise BadData(f"one {use.value} has {len(values)} attributes; at most {MAX_VALUES} are allowed")
    size = sum(len(each.value) for each in values)
    if size > MAX_VALUE_BYTES:
        raise BadData(
            f"the attributes of one {use.value} have {size} bytes; at most {MAX_VALUE_BYTES} are allowed"
        )
    seen: set[tuple[Extension, int]] = set()
    for each in values:
        each.extension.require_attribute(use, each.code)
        if (each.extension, each.code) in seen:
            raise BadData(
                f"the {use.value} has a value for attribute {each.code} of {each.extension.name} already; "
                "each can be given once"
            )
        seen.add((each.extension, each.code))


def attribute_value(values: Sequence[AttributeValue], extension: Extension, code: int) -> bytes | None:
    """Returns the value of an attribute of a compilation or execution; None if it is not set."""
    return next((each.value for each in values if each.code == code and each.extension == extension), None)
