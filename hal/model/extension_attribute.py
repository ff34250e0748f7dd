"""Values of the attributes of vendors' extensions, which an application gives to a compilation or to an execution.

Android NN: `ANeuralNetworksCompilation_addExtensionAttribute` and `ANeuralNetworksExecution_addExtensionAttribute`. What the
bytes of a value mean, only the device knows that declares the attribute. It finds those of a compilation in
`PrepareOptions.attributes`, and those of an execution in `ExecuteOptions.attributes`, and refuses with BadData what it does
not understand. It is never given an attribute that it does not declare, or one twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from neurald.hal.errors import BadData
from neurald.hal.model.extension import AttributeUse, Extension

#: How many attributes one compilation or execution may have, and how many bytes their values may have together.
MAXIMUM_VALUES = 64
MAXIMUM_VALUE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeValue:
    """The value of one attribute.

    Attributes:
        extension: that declares the attribute.
        code: of the attribute, inside of the extension.
        value: what the device makes of it is its own business.
    """

    extension: Extension
    code: int
    value: bytes


def check_attributes(values: Sequence[AttributeValue], use: AttributeUse) -> None:
    """Checks all values of one compilation, or of one execution.

    Raises:
        BadData: an attribute is not declared, or has two values, or there are too many, or too many bytes of them.
    """
    if len(values) > MAXIMUM_VALUES:
        raise BadData(f"{len(values)} attributes of one {use.value}; at most {MAXIMUM_VALUES} are allowed")
    size = sum(len(each.value) for each in values)
    if size > MAXIMUM_VALUE_BYTES:
        raise BadData(
            f"the attributes of one {use.value} have {size} bytes; at most {MAXIMUM_VALUE_BYTES} are allowed"
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
    """The value of an attribute among those of a compilation or execution; None where it was not given."""
    return next((each.value for each in values if each.code == code and each.extension == extension), None)
