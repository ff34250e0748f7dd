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
            known = common[dimension]
            # A length that is not known is only compared with 1 if it differs from the other one.
            if length is known or _is_one(length):
                continue
            if _is_one(known):
                common[dimension] = length
            elif length == known:
                continue
            elif known == 1:
                common[dimension] = length
            elif length != 1:
                raise ValueError(f"the shapes {list(map(list, shapes))} do not broadcast")
    return tuple(common)


def _is_one(length: int) -> bool:
    return isinstance(length, int) and length == 1


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


def binary_shape(call: Call) -> tuple[Shape, ...]:
    """Returns the broadcast shape of two inputs."""
    return (broadcast_shape(call, "input1", "input2"),)
