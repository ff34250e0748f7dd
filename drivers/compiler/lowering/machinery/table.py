"""Types of lowerings."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from neurald.drivers.compiler.ir.builder import Builder, Limit
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call

#: Builds an operation's outputs in order, with each operand's type and shape. Raises
#: `builder.Unsupported` with the reason if kernels do not support the form at hand. Reads known
#: values from the call, as references do.
Lowering: TypeAlias = Callable[[Call, Builder], tuple[Value, ...]]
Lowerings: TypeAlias = Mapping[OperationType, Lowering]


class BoundedValue(Struct, frozen=True, kw_only=True):
    """A result, whose shape is an upper bound if it has a limit."""

    value: Value
    limit: Limit | None = None


#: Builds the outputs of an operation whose number of results follows from data.
BoundedLowering: TypeAlias = Callable[[Call, Builder], Sequence[BoundedValue]]
BoundedLowerings: TypeAlias = Mapping[OperationType, BoundedLowering]
