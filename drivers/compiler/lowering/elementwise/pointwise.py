"""Helpers of element-wise lowerings: broadcasting expressions and tables of results."""

from collections.abc import Callable, Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, broadcast
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.broadcasting import broadcast_shapes
from neurald.hal.operations.machinery.call import Array, Call

#: Computes an expression from one element of each input.
Function = Callable[..., Expression]
#: Returns conditions and their error messages for one element of each input.
Requirements = Callable[..., Sequence[tuple[Expression, str]]]

UNARY_INPUTS = ("input",)
BINARY_INPUTS = ("input1", "input2")


def pointwise(
    call: Call,
    builder: Builder,
    names: Sequence[str],
    function: Function,
    requirements: Requirements | None = None,
) -> tuple[Value, ...]:
    """Lowers an element-wise operation.

    Args:
        call: the operation.
        builder: the builder of the operation.
        names: the names of the inputs, which broadcast against each other.
        function: computes the output element as stored from input elements as stored.
        requirements: the requirements of the same elements.
    """
    return (compute_of([builder.value(call, name) for name in names], builder, function, requirements),)


def compute_of(
    sources: Sequence[Value], builder: Builder, function: Function, requirements: Requirements | None = None
) -> Value:
    """Computes an element-wise function of values that broadcast; see `pointwise`."""

    def conditions(*at: Expression) -> Sequence[tuple[Expression, str]]:
        return requirements(*(broadcast(source, at) for source in sources)) if requirements else ()

    return builder.compute(
        broadcast_shapes(*(source.shape for source in sources)),
        lambda *at: function(*(broadcast(source, at) for source in sources)),
        conditions,
    )


def lower_pointwise(
    function: Function, names: Sequence[str] = UNARY_INPUTS, requirements: Requirements | None = None
) -> Lowering:
    """Returns the lowering of a function of unquantised numbers. FLOAT16 is computed in FLOAT32."""

    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        result = Scalar.of(call.operand("output").type.dtype)
        return pointwise(
            call, builder, names, lambda *elements: function(*map(widen, elements)).to(result), requirements
        )

    return lowered


def widen(value: Expression) -> Expression:
    """Converts FLOAT16 to FLOAT32; returns other numbers unchanged."""
    return value.to(Scalar.FLOAT32) if value.type is Scalar.FLOAT16 else value


def reference(call: Call) -> Array:
    """Computes the operation's only output by its reference."""
    (result,) = DEFINITIONS[call.binding.type].reference(call)
    return result


def table_of(
    call: Call,
    builder: Builder,
    name: str = "input",
    function: Callable[[Call], Array] = reference,
    lowest: int | None = None,
) -> Function:
    """Returns a lookup of a function's results for every quantised value of an input.

    Args:
        call: the operation.
        builder: the builder of the operation.
        name: the name of an 8-bit or 16-bit input.
        function: element-wise in that input; it may only use known values of the others.
        lowest: smaller quantised values are replaced by this one.

    Returns:
        The function from an element of the input to its result.
    """
    dtype = call.operand(name).type.dtype
    limits = np.iinfo(dtype.name)
    every = np.arange(limits.min, limits.max + 1)
    if lowest is not None:
        every = np.maximum(every, lowest)
    table = builder.constant(function(call.replaced(name, every.astype(dtype))))
    return lambda value: load(table, (value.to(Scalar.INDEX) - int(limits.min),))


def by_table(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers an operation on one 8-bit or 16-bit input by a table of the reference's results."""
    return pointwise(call, builder, UNARY_INPUTS, table_of(call, builder))
