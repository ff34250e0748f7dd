"""Values with lengths that are not known yet, for operations that compute with any numbers."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, constant, select
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.operations.machinery.call import Array


def computed_lengths(builder: Builder, lengths: Array, kind: Scalar) -> Value:
    """Adds a value with lengths as elements.

    Args:
        builder: the builder of the graph.
        lengths: extents and numbers, as objects.
        kind: the type of the value.
    """

    def body(*at: Expression) -> Expression:
        place, (last, *others) = linearize(at, lengths.shape), reversed(lengths.reshape(-1).tolist())
        element: Expression = constant(last, kind)
        for number, length in zip(reversed(range(len(others))), others, strict=True):
            element = select(place.equals(number), constant(length, kind), element)
        return element

    return builder.compute(lengths.shape, body)
