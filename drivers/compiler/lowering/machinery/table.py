"""What a lowering is."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call

#: Builds an operation's outputs, in order, each of its operand's type and shape. Raises `builder.Unsupported` with the reason
#: where it has no kernel for the form at hand; what it needs to know of a value it asks the call for, as references do.
Lowering: TypeAlias = Callable[[Call, Builder], tuple[Value, ...]]
Lowerings: TypeAlias = Mapping[OperationType, Lowering]
