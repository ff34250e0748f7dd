"""Vendor extensions: operations, operand types and attributes beyond Android NN's, which a device declares by name.

An extension is a value. A driver declares it once, with a name such as `com.vendor.name`, the operand types that it adds (what
they are called, whether they are tensors, and how many bytes an element has), the operations, and the attributes that
compilations and executions can be given (`neurald.hal.model.extension_attribute`). Everybody who uses it must declare it alike: a
changed declaration is another extension and needs another name.

Types of an extension are members of `OperationType` and `OperandType` like any other. Their numbers are made up of a prefix,
which each process hands out on demand (Android's `TypeManager` does that too), and the code inside of the extension. So numbers
mean nothing outside of the process: messages, artifacts and cache keys name the extension (`neurald.hal.rpc.wire.extension`).

What an operation of an extension means, only the devices that declare it know. The runtime checks nothing but that operands
exist, and never sends one to a device that does not list its extension.
"""

import re
from dataclasses import dataclass
from enum import Enum

import numpy as np

from neurald.hal.errors import BadData, ResourceExhaustedPersistent
from neurald.hal.model.operation_type import TFLITE_EXTENSION_BASE, OperationType
from neurald.hal.model.types import Model, OperandType, Operation, Subgraph, add_operand_type
from neurald.hal.process.fork import forkable_lock

#: The extension whose operations and operand types are part of this package.
TFLITE = "neurald.tflite"

#: Codes inside of an extension have 16 bits, as on Android.
MAXIMUM_CODE = 0xFFFF
#: Bytes that one element of an operand type may have.
MAXIMUM_ELEMENT_BYTES = 1 << 16
#: How many operand types, operations and attributes of each kind one extension may declare.
MAXIMUM_TYPES = 4096

#: How many of them a message lists.
_SHOWN = 8
_PREFIX_BITS = 16
_FIRST_PREFIX = 2  # 0 is Android's, and 1 that of neurald.tflite.
_MAXIMUM_PREFIX = 0x7FFF
_EXTENSION_NAME = re.compile(r"(?=.{1,256}\Z)[a-z0-9_]+(\.[a-z0-9_]+)+")
_TYPE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionOperandType:
    """An operand type of an extension.

    Attributes:
        code: its number inside of the extension.
        name: for messages.
        is_tensor: whether operands of the type have dimensions.
        element_bytes: of one element; of the whole value where it is no tensor.

    Raises:
        BadData: a value is outside of its limits.
    """

    code: int
    name: str
    is_tensor: bool
    element_bytes: int

    def __post_init__(self) -> None:
        _check_type(self.code, self.name, "operand type")
        if not 1 <= self.element_bytes <= MAXIMUM_ELEMENT_BYTES:
            raise BadData(
                f"operand type {self.name}: an element of {self.element_bytes} bytes; "
                f"1 to {MAXIMUM_ELEMENT_BYTES} are expected"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionOperation:
    """An operation of an extension.

    Attributes:
        code: its number inside of the extension.
        name: for messages.

    Raises:
        BadData: a value is outside of its limits.
    """

    code: int
    name: str

    def __post_init__(self) -> None:
        _check_type(self.code, self.name, "operation")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionAttribute:
    """An attribute of an extension, for which an application gives a compilation or an execution a value.

    Attributes:
        code: its number inside of the extension.
        name: for messages.

    Raises:
        BadData: a value is outside of its limits.
    """

    code: int
    name: str

    def __post_init__(self) -> None:
        _check_type(self.code, self.name, "attribute")


class AttributeUse(Enum):
    """What is given the value of an attribute."""

    COMPILATION = "compilation"
    EXECUTION = "execution"


#: What an extension declares, by the field that holds it, and what one of them is called.
_MEMBERS = {
    "operand_types": "operand type",
    "operations": "operation",
    "compilation_attributes": "compilation attribute",
    "execution_attributes": "execution attribute",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """A named set of operations, operand types and attributes.

    Attributes:
        name: lower-case letters, digits and `_`, in at least two parts that are separated by dots.
        operand_types, operations, compilation_attributes, execution_attributes: by code; no code and no name comes twice
            among any of these.

    Raises:
        BadData: the name is none, or codes or names are not unique.
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
            if len(members) > MAXIMUM_TYPES:
                raise BadData(
                    f"extension {self.name}: {len(members)} {what}s; at most {MAXIMUM_TYPES} are allowed"
                )
            for attribute in ("code", "name"):
                values = [getattr(member, attribute) for member in members]
                if len(set(values)) < len(values):
                    raise BadData(f"extension {self.name}: two {what}s have the same {attribute}")
            # Two declarations are equal whatever the order in which they were written down.
            object.__setattr__(self, field, tuple(sorted(members, key=lambda member: member.code)))

    def operand_type(self, code: int) -> OperandType:
        """The operand type of that code.

        Raises:
            BadData: the extension declares none.
        """
        self._require("operand_types", code)
        return OperandType(_number(self, code))

    def operation_type(self, code: int) -> OperationType:
        """The operation of that code.

        Raises:
            BadData: the extension declares none.
        """
        self._require("operations", code)
        return OperationType(_number(self, code))

    def require_attribute(self, use: AttributeUse, code: int) -> None:
        """Raises BadData unless compilations, or executions, can be given the attribute of that code."""
        self._require(f"{use.value}_attributes", code)

    def _require(self, field: str, code: int) -> None:
        members = getattr(self, field)
        if all(member.code != code for member in members):
            shown = [f"{member.code} ({member.name})" for member in members[:_SHOWN]]
            more = f" and {len(members) - _SHOWN} others" if len(members) > _SHOWN else ""
            declared = ", ".join(shown) + more or "none"
            raise BadData(f"extension {self.name} has no {_MEMBERS[field]} {code}; it has {declared}")


def check_extension_name(name: str) -> None:
    """Raises BadData unless `name` can be that of an extension of a vendor."""
    if not isinstance(name, str) or not _EXTENSION_NAME.fullmatch(name):
        raise BadData(
            f"extension {name!r}: a name like com.vendor.name is expected, of lower-case letters, digits, _ and dots"
        )
    if name == TFLITE:
        raise BadData(f"{TFLITE} is part of neurald; its operations are members of OperationType")


def _check_type(code: int, name: str, what: str) -> None:
    if not 0 <= code <= MAXIMUM_CODE:
        raise BadData(f"{what} {name!r}: code {code}; 0 to {MAXIMUM_CODE} is expected")
    if not _TYPE_NAME.fullmatch(name):
        raise BadData(f"{what} {code}: name {name!r}; letters, digits and _ are expected")


_lock = forkable_lock()
_prefixes: dict[Extension, int] = {}
_extensions: dict[int, Extension] = {}


def _number(extension: Extension, code: int) -> int:
    """The number of a code in this process; the extension's types are made when it is first met."""
    with _lock:
        prefix = _prefixes.get(extension)
        if prefix is None:
            prefix = _FIRST_PREFIX + len(_prefixes)
            if prefix > _MAXIMUM_PREFIX:
                raise ResourceExhaustedPersistent(f"more than {len(_prefixes)} extensions in one process")
            for kind in extension.operand_types:
                add_operand_type(
                    prefix << _PREFIX_BITS | kind.code,
                    f"{extension.name}.{kind.name}",
                    np.dtype(f"V{kind.element_bytes}"),
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
    """The vendor's extension that an operation or operand type belongs to; None for Android's and those of this package."""
    return _extensions.get(kind >> _PREFIX_BITS)


def code_of(kind: OperationType | OperandType) -> int:
    """The code of a type inside of its extension."""
    return kind & MAXIMUM_CODE


#: What an operation needs of a device: a vendor's extension as it was declared, or the name of the one of this package.
Needed = Extension | str


def extensions_needed(model: Model, graph: Subgraph, operation: Operation) -> frozenset[Needed]:
    """The extensions that a device must have to run an operation of a valid model; of control flow also inside its graphs."""
    needed: set[Needed] = set()
    pending = [(graph, operation)]
    seen: set[int] = set()
    while pending:
        graph, operation = pending.pop()
        needed |= _needed_by(operation.type)
        for index in (*operation.inputs, *operation.outputs):
            operand = graph.operands[index]
            needed |= _needed_by(operand.type)
            if operand.subgraph is not None and operand.subgraph not in seen:
                seen.add(operand.subgraph)
                inner = model.referenced[operand.subgraph]
                pending += ((inner, each) for each in inner.operations)
    return frozenset(needed)


def _needed_by(kind: OperationType | OperandType) -> set[Needed]:
    if kind < TFLITE_EXTENSION_BASE:
        return set()
    extension = extension_of(kind)
    return {TFLITE if extension is None else extension}


def vendor_extensions(model: Model) -> tuple[Extension, ...]:
    """The vendors' extensions of all operations and operands of a model, by name."""
    found: set[Extension] = set()
    for graph in (model.main, *model.referenced):
        kinds: set[OperationType | OperandType] = {operand.type for operand in graph.operands}
        kinds.update(operation.type for operation in graph.operations)
        found.update(extension for kind in kinds if (extension := extension_of(kind)) is not None)
    return tuple(sorted(found, key=lambda extension: (extension.name, repr(extension))))
