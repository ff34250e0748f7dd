"""Shapes of operations with broadcasting inputs."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.operations.machinery.call import Call, Shape


def broadcast_shape(call: Call, *names: str) -> Shape:
    """Returns the common shape of the named inputs.

    Raises:
        BadData: two of them have different lengths, neither of which is 1, along a dimension.
    """
    shapes = [call.shape(name) for name in names]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(f"{name} {list(shape)}" for name, shape in zip(names, shapes, strict=True))
        raise BadData(f"{call.binding.type.name} cannot broadcast {listed}") from None
