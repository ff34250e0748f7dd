"""Vendor extensions: operations, operand types and attributes that a device declares by name.

An extension is a value. A driver declares it once, with a name such as `com.vendor.name`, the
operand types that it adds (names, whether they are tensors, element sizes in bytes), the
operations, and the attributes of compilations and executions
(`neurald.hal.model.extension_attribute`). All users must declare it identically: a changed
declaration is another extension and needs another name.

Types of an extension are ordinary members of `OperationType` and `OperandType`. Their numbers
consist of a prefix, which each process assigns on demand (like Android's `TypeManager`), and the
code within the extension. So the numbers are meaningless outside of the process: messages,
artifacts and cache keys name the extension (`neurald.hal.rpc.wire.extension`).

Only the devices that declare an extension know the meaning of its operations. The runtime only
checks that operands exist, and never sends such an operation to a device that does not list its
extension.
"""

import re
from enum import Enum
from functools import lru_cache

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from neurald.hal.digests import digest_of
from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import TFLITE_EXTENSION_BASE, OperationType
from neurald.hal.model.types import OperandType, add_operand_type
from neurald.hal.process.fork import forkable_lock

#: The extension whose operations and operand types are part of this package.
TFLITE = "neurald.tflite"

#: Codes within an extension have 16 bits, as on Android.
MAX_CODE = 0xFFFF
#: Maximum size of one element of an operand type.
MAX_ELEMENT_BYTES = 1 << 16
#: Maximum number of operand types, operations and attributes of each kind in one extension.
MAX_TYPES = 4096

#: Number of members that a message lists.
_MAX_SHOWN = 8
_PREFIX_BITS = 16
_FIRST_PREFIX = 2  # 0 is Android's, and 1 that of neurald.tflite.
_MAX_PREFIX = 0x7FFF
_DECLARATION_DOMAIN = b"neurald extension 1\0"
#: How many extensions a device may declare, or a model may use.
MAX_EXTENSIONS = 64
# Compiled when they are used, which is rare.
_EXTENSION_NAME = r"(?=.{1,256}\Z)[a-z0-9_]+(\.[a-z0-9_]+)+"
_TYPE_NAME = r"[A-Za-z][A-Za-z0-9_]{0,127}"


class ExtensionOperandType(Struct, frozen=True, kw_only=True, array_like=True):
    """An operand type of an extension.

    Attributes:
        code: its number within the extension.
        name: the name for messages.
        is_tensor: whether operands of the type have dimensions.
        element_bytes: size of one element; for a scalar type, of the whole value.

    Raises:
        BadData: a field is out of range.
    """

    code: int
    name: str
    is_tensor: bool
    element_bytes: int

    def __post_init__(self) -> None:
        _check_type(self.code, self.name, "operand type")
        if not 1 <= self.element_bytes <= MAX_ELEMENT_BYTES:
            raise BadData(
                f"operand type {self.name}: an element of {self.element_bytes} bytes; "
                f"1 to {MAX_ELEMENT_BYTES} are expected"
            )


class ExtensionOperation(Struct, frozen=True, kw_only=True, array_like=True):
    """An operation of an extension.

    Attributes:
        code: its number within the extension.
        name: the name for messages.

    Raises:
        BadData: a field is out of range.
    """

    code: int
    name: str

    def __post_init__(self) -> None:
        _check_type(self.code, self.name, "operation")


class ExtensionAttribute(Struct, frozen=True, kw_only=True, array_like=True):
    """An attribute of an extension, which an application sets on a compilation or an execution.

    Attributes:
        code: its number within the extension.
        name: the name for messages.

    Raises:
        BadData: a field is out of range.
    """

    code: int
    name: str

    def __post_init__(self) -> None:
        _check_type(self.code, self.name, "attribute")


class AttributeUse(Enum):
    """The object that an attribute is set on."""

    COMPILATION = "compilation"
    EXECUTION = "execution"


#: Fields of an extension's declaration, and the noun for one member.
_MEMBERS = {
    "operand_types": "operand type",
    "operations": "operation",
    "compilation_attributes": "compilation attribute",
    "execution_attributes": "execution attribute",
}


class Extension(Struct, frozen=True, kw_only=True, array_like=True):
    """A named set of operations, operand types and attributes.

    Attributes:
        name: lower-case letters, digits and `_`, in at least two parts separated by dots.
        operand_types, operations, compilation_attributes, execution_attributes: by code; codes and
            names are unique within each.

    Raises:
        BadData: the name is invalid, or codes or names are not unique.
    """

    name: str
    operand_types: tuple[ExtensionOperandType, ...] = ()
    operations: tuple[ExtensionOperation, ...] = ()
    compilation_attributes: tuple[ExtensionAttribute, ...] = ()
    execution_attributes: tuple[ExtensionAttribute, ...] = ()

    def __post_init__(self) -> None:
        check_extension_name(self.name)
        for field, what in _MEMBERS.items():
            members = getattr(self, field)
            if len(members) > MAX_TYPES:
                raise BadData(
                    f"extension {self.name}: {len(members)} {what}s; at most {MAX_TYPES} are allowed"
                )
            for attribute in ("code", "name"):
                values = [getattr(member, attribute) for member in members]
                if len(set(values)) < len(values):
                    raise BadData(f"extension {self.name}: two {what}s have the same {attribute}")
            # Sorted, so that equality does not depend on the order of the declaration.
            force_setattr(self, field, tuple(sorted(members, key=lambda member: member.code)))

    def operand_type(self, code: int) -> OperandType:
        """Returns the operand type with that code.

        Raises:
            BadData: the extension declares no such type.
        """
        self._require("operand_types", code)
        return OperandType(_number(self, code))

    def operation_type(self, code: int) -> OperationType:
        """Returns the operation with that code.

        Raises:
            BadData: the extension declares no such operation.
        """
        self._require("operations", code)
        return OperationType(_number(self, code))

    def require_attribute(self, use: AttributeUse, code: int) -> None:
        """Raises BadData unless compilations (or executions) have an attribute with that code."""
        self._require(f"{use.value}_attributes", code)

    def _require(self, field: str, code: int) -> None:
        members = getattr(self, field)
        if all(member.code != code for member in members):
            shown = [f"{member.code} ({member.name})" for member in members[:_MAX_SHOWN]]
            more = f" and {len(members) - _MAX_SHOWN} others" if len(members) > _MAX_SHOWN else ""
            declared = ", ".join(shown) + more or "none"
            raise BadData(f"extension {self.name} has no {_MEMBERS[field]} {code}; it has {declared}")


def check_extension_name(name: str) -> None:
    """Raises BadData unless `name` is a valid name for a vendor's extension."""
    if not isinstance(name, str) or not re.fullmatch(_EXTENSION_NAME, name):
        raise BadData(
            f"extension {name!r}: a name like com.vendor.name is expected, of lower-case letters, digits, _ "
            "and dots"
        )
    if name == TFLITE:
        raise BadData(f"{TFLITE} is part of neurald; its operations are members of OperationType")


def _check_type(code: int, name: str, what: str) -> None:
    if not 0 <= code <= MAX_CODE:
        raise BadData(f"{what} {name!r}: code {code}; 0 to {MAX_CODE} is expected")
    if not re.fullmatch(_TYPE_NAME, name):
        raise BadData(f"{what} {code}: name {name!r}; letters, digits and _ are expected")


_lock = forkable_lock()
_prefixes: dict[Extension, int] = {}
_extensions: dict[int, Extension] = {}


def _number(extension: Extension, code: int) -> int:
    """Returns the number of a code in this process; registers the extension on first use."""
    with _lock:
        prefix = _prefixes.get(extension)
        if prefix is None:
            prefix = _FIRST_PREFIX + len(_prefixes)
            if prefix > _MAX_PREFIX:
                raise ResourceExhaustedPersistent(
                    f"the process has {len(_prefixes)} extensions, which is the most that it may have"
                )
            for kind in extension.operand_types:
                add_operand_type(
                    prefix << _PREFIX_BITS | kind.code,
                    f"{extension.name}.{kind.name}",
                    kind.element_bytes,
                    is_tensor=kind.is_tensor,
                )
            for operation in extension.operations:
                OperationType.add(
                    prefix << _PREFIX_BITS | operation.code, f"{extension.name}.{operation.name}"
                )
            _prefixes[extension] = prefix
            _extensions[prefix] = extension
        return prefix << _PREFIX_BITS | code


def extension_of(kind: OperationType | OperandType) -> Extension | None:
    """Returns the vendor extension of an operation or operand type; None for built-in types."""
    return _extensions.get(kind >> _PREFIX_BITS)


def code_of(kind: OperationType | OperandType) -> int:
    """Returns the code of a type within its extension."""
    return kind & MAX_CODE


@lru_cache(maxsize=MAX_EXTENSIONS)
def declaration_digest(extension: Extension) -> bytes:
    """Returns the SHA-256 digest of a declaration, which is the same in every process."""
    return digest_of(_DECLARATION_DOMAIN + msgspec.msgpack.encode(extension))


#: An extension that an operation requires: a vendor's declaration, or the name of the built-in one.
RequiredExtension = Extension | str


def required_extensions(model: Model, graph: Subgraph, operation: Operation) -> frozenset[RequiredExtension]:
    """Returns the extensions that a device needs to run an operation of a valid model.

    For control flow this includes the operations inside its graphs.
    """
    required: set[RequiredExtension] = set()
    pending = [(graph, operation)]
    seen: set[int] = set()
    while pending:
        graph, operation = pending.pop()
        required |= _required_by(operation.type)
        for index in (*operation.inputs, *operation.outputs):
            operand = graph.operands[index]
            required |= _required_by(operand.type)
            if operand.subgraph is not None and operand.subgraph not in seen:
                seen.add(operand.subgraph)
                inner = model.referenced[operand.subgraph]
                pending += ((inner, each) for each in inner.operations)
    return frozenset(required)


def _required_by(kind: OperationType | OperandType) -> set[RequiredExtension]:
    if kind < TFLITE_EXTENSION_BASE:
        return set()
    extension = extension_of(kind)
    return {TFLITE if extension is None else extension}


def vendor_extensions(model: Model) -> tuple[Extension, ...]:
    """Returns the vendor extensions of all operations and operands of a model, by name."""
    found: set[Extension] = set()
    for graph in (model.main, *model.referenced):
        kinds: set[OperationType | OperandType] = {operand.type for operand in graph.operands}
        kinds.update(operation.type for operation in graph.operations)
        found.update(extension for kind in kinds if (extension := extension_of(kind)) is not None)
    return tuple(sorted(found, key=lambda extension: (extension.name, repr(extension))))
