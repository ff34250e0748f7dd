"""Shapes of operations with broadcasting inputs."""

from neurald.hal.errors import BadData
from neurald.hal.operations.machinery.call import Call, Shape


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Returns the common shape of arrays, by NumPy's rules.

    Lengths need not be ints: a compiler may infer shapes with lengths that it does not know.

    Raises:
        ValueError: two lengths along a dimension differ, and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    common: list[int] = [1] * rank
    for shape in shapes:
        for dimension, length in enumerate(shape, start=rank - len(shape)):
            if common[dimension] == 1:
                common[dimension] = length
            elif length != 1 and length != common[dimension]:
                raise ValueError(f"the shapes {list(map(list, shapes))} do not broadcast")
    return tuple(common)


def broadcast_shape(call: Call, *names: str) -> Shape:
    """Returns the common shape of the named inputs.

    Raises:
        BadData: two of them have different lengths, neither of which is 1, along a dimension.
    """
    shapes = [call.shape(name) for name in names]
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in zip(names, shapes, strict=True))
        raise BadData(f"{call.binding.type.name} cannot broadcast {listed}") from None
