"""Converts vendor extensions: their declarations, attributes, and the numbers of their types.

Types have numbers that are only valid within one message. Received declarations are not trusted:
they are checked like any other, and the reader of a model says which extensions exist.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from neurald._proto import types_pb2
from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.model.extension import (
    MAX_EXTENSIONS,
    AttributeUse,
    Extension,
    ExtensionAttribute,
    ExtensionOperandType,
    ExtensionOperation,
    code_of,
    declaration_digest,
    extension_of,
)
from neurald.hal.model.extension_attribute import AttributeValue, check_attributes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

_PREFIX_BITS = 16
_FIRST_PREFIX = 2

_Kind = TypeVar("_Kind", OperationType, OperandType)


def extension_to_wire(extension: Extension) -> types_pb2.Extension:
    """Encodes a declaration."""
    message = types_pb2.Extension(name=extension.name)
    for kind in extension.operand_types:
        message.operand_types.add(
            code=kind.code, name=kind.name, is_tensor=kind.is_tensor, element_bytes=kind.element_bytes
        )
    for field, attributes in (
        (message.compilation_attributes, extension.compilation_attributes),
        (message.execution_attributes, extension.execution_attributes),
    ):
        for attribute in attributes:
            field.add(code=attribute.code, name=attribute.name)
    for operation in extension.operations:
        message.operations.add(code=operation.code, name=operation.name)
    return message


def extensions_from_wire(messages: Sequence[types_pb2.Extension]) -> tuple[Extension, ...]:
    """Decodes declarations, in their order.

    Raises:
        BadData: a declaration is not valid, or an extension is declared twice.
        ResourceExhaustedPersistent: there are too many.
    """
    if len(messages) > MAX_EXTENSIONS:
        raise ResourceExhaustedPersistent(
            f"{len(messages)} extensions are declared; at most {MAX_EXTENSIONS} are allowed"
        )
    found = tuple(
        Extension(
            name=message.name,
            operand_types=tuple(
                ExtensionOperandType(
                    code=kind.code,
                    name=kind.name,
                    is_tensor=kind.is_tensor,
                    element_bytes=kind.element_bytes,
                )
                for kind in message.operand_types
            ),
            operations=tuple(
                ExtensionOperation(code=operation.code, name=operation.name)
                for operation in message.operations
            ),
            compilation_attributes=_attributes(message.compilation_attributes),
            execution_attributes=_attributes(message.execution_attributes),
        )
        for message in messages
    )
    names = [extension.name for extension in found]
    if len(set(names)) < len(names):
        raise BadData(f"an extension is declared twice: {', '.join(names)}")
    return found


def _attributes(
    messages: Iterable[types_pb2.Extension.Attribute],
) -> tuple[ExtensionAttribute, ...]:
    return tuple(ExtensionAttribute(code=message.code, name=message.name) for message in messages)


def attributes_to_wire(values: Iterable[AttributeValue]) -> Iterable[types_pb2.AttributeValue]:
    """Encodes values of attributes."""
    return (
        types_pb2.AttributeValue(
            extension=each.extension.name,
            declaration=declaration_digest(each.extension),
            code=each.code,
            value=each.value,
        )
        for each in values
    )


def attributes_from_wire(
    messages: Sequence[types_pb2.AttributeValue], use: AttributeUse, declared: Sequence[Extension]
) -> tuple[AttributeValue, ...]:
    """Decodes values of attributes.

    Args:
        messages: the messages of one compilation, or of one execution.
        use: which of the two.
        declared: the extensions that the device declares.

    Raises:
        BadData: an extension or attribute is not declared, or declared differently, or has two
            values, or there are too many.
    """
    if not messages:
        return ()
    extensions = {extension.name: extension for extension in declared}
    found = []
    for message in messages:
        extension = extensions.get(message.extension)
        if extension is None:
            raise BadData(
                f"an attribute belongs to extension {message.extension[:80]!r}, which the device does not declare"
            )
        if message.declaration != declaration_digest(extension):
            raise BadData(
                f"an attribute belongs to extension {extension.name}, which the device declares differently"
            )
        found.append(AttributeValue(extension=extension, code=message.code, value=message.value))
    check_attributes(found, use)
    return tuple(found)


class ExtensionNumbers:
    """The numbers of types in one message. The prefix of a vendor's type is its extension's index.

    Args:
        extensions: the extensions of the message, in order.
    """

    def __init__(self, extensions: Iterable[Extension] = ()) -> None:
        self._extensions = tuple(extensions)

    def number(self, kind: OperationType | OperandType) -> int:
        """Returns the number of a type.

        Raises:
            BadData: its extension is not in the list.
        """
        extension = extension_of(kind)
        if extension is None:
            return int(kind)
        if extension not in self._extensions:
            raise BadData(f"{kind.name}: the extension {extension.name} is not declared")
        return (_FIRST_PREFIX + self._extensions.index(extension)) << _PREFIX_BITS | code_of(kind)

    def operation_type(self, number: int, what: str) -> OperationType:
        """Returns the operation with a number; `what` names it in messages.

        Raises:
            BadData: there is no such operation.
        """
        extension = self._extension(number)
        if extension is not None:
            return _declared(extension.operation_type, number, what)
        return _built_in(OperationType, number, what)

    def operand_type(self, number: int, what: str) -> OperandType:
        """Returns the operand type with a number; `what` names it in messages.

        Raises:
            BadData: there is no such type.
        """
        extension = self._extension(number)
        if extension is not None:
            return _declared(extension.operand_type, number, what)
        return _built_in(OperandType, number, what)

    def _extension(self, number: int) -> Extension | None:
        position = (number >> _PREFIX_BITS) - _FIRST_PREFIX
        return self._extensions[position] if 0 <= position < len(self._extensions) else None


def _declared(find: Callable[[int], _Kind], number: int, what: str) -> _Kind:
    try:
        return find(number & ((1 << _PREFIX_BITS) - 1))
    except BadData as error:
        raise BadData(f"{what}: {error}") from None


def _built_in(kind: type[_Kind], number: int, what: str) -> _Kind:
    # A vendor's type that has this number in this process is not meant.
    if not 0 <= number < _FIRST_PREFIX << _PREFIX_BITS:
        raise BadData(f"{what} is {number}, which is not known")
    try:
        return kind(number)
    except ValueError:
        raise BadData(f"{what} is {number}, which is not known") from None
