"""What lowerings of single elements share: one expression for each element, of inputs that broadcast, or a table of results."""

from collections.abc import Callable, Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, broadcast
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import Array
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call

#: Gives something from one element of each input.
Function = Callable[..., Expression]
#: Gives from one element of each input what must hold, and what to say where it does not.
Requirements = Callable[..., Sequence[tuple[Expression, str]]]

ONE = ("input",)
TWO = ("input1", "input2")


def pointwise(
    call: Call,
    builder: Builder,
    names: Sequence[str],
    function: Function,
    requirements: Requirements | None = None,
) -> tuple[Value, ...]:
    """The output of an operation.

    Args:
        call: the operation.
        builder: of the operation.
        names: of the inputs, which broadcast against each other.
        function: gives an element of the output as it is stored, from elements of the inputs as they are stored.
        requirements: of the same elements.
    """
    return (compute_of([builder.value(call, name) for name in names], builder, function, requirements),)


def compute_of(
    sources: Sequence[Value], builder: Builder, function: Function, requirements: Requirements | None = None
) -> Value:
    """The same of values."""

    def conditions(*at: Expression) -> Sequence[tuple[Expression, str]]:
        return requirements(*(broadcast(source, at) for source in sources)) if requirements else ()

    return builder.compute(
        np.broadcast_shapes(*(source.shape for source in sources)),
        lambda *at: function(*(broadcast(source, at) for source in sources)),
        conditions,
    )


def lower(
    function: Function, names: Sequence[str] = ONE, requirements: Requirements | None = None
) -> Lowering:
    """A function of numbers as they are, except that half precision is computed in FLOAT32."""

    def lowered(call: Call, builder: Builder) -> tuple[Value, ...]:
        result = Scalar.of(call.operand("output").type.dtype)
        return pointwise(
            call, builder, names, lambda *elements: function(*map(widen, elements)).to(result), requirements
        )

    return lowered


def widen(value: Expression) -> Expression:
    """A number to compute with: half precision as FLOAT32."""
    return value.to(Scalar.FLOAT32) if value.type is Scalar.FLOAT16 else value


def reference(call: Call) -> Array:
    """What the operation's reference gives as its only output."""
    (result,) = DEFINITIONS[call.binding.type].reference(call)
    return result


def table_of(
    call: Call,
    builder: Builder,
    name: str = "input",
    function: Callable[[Call], Array] = reference,
    lowest: int | None = None,
) -> Function:
    """A lookup of what a function of the operation gives for each value that an input may store.

    Args:
        call: the operation.
        builder: of the operation.
        name: of an input of 8 or 16 bits.
        function: element by element of that input; of the others it needs no more than is known.
        lowest: it is not asked for smaller stored values; they count as this one.

    Returns:
        Gives the result of an element of the input.
    """
    dtype = call.operand(name).type.dtype
    limits = np.iinfo(dtype.name)
    every = np.arange(limits.min, limits.max + 1)
    if lowest is not None:
        every = np.maximum(every, lowest)
    table = builder.constant(function(call.replaced(name, every.astype(dtype))))
    return lambda stored: load(table, (stored.to(Scalar.INDEX) - int(limits.min),))


def by_table(call: Call, builder: Builder) -> tuple[Value, ...]:
    """The output of an operation on one input of 8 or 16 bits, as the reference gives it for each stored value."""
    return pointwise(call, builder, ONE, table_of(call, builder))
