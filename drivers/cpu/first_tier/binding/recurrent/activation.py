"""The kernel of each activation of cells, and the limits of those that clamp."""

import math
from collections.abc import Mapping
from typing import Final

from neurald.hal.operations.recurrent.recurrent import (
    CellActivation,
)

#: The kernel of each activation, and the limits of those that clamp.
ACTIVATION_KERNELS: Final[Mapping[CellActivation, tuple[str, float, float]]] = {
    CellActivation.NONE: ("clamped", -math.inf, math.inf),
    CellActivation.RELU: ("clamped", 0.0, math.inf),
    CellActivation.RELU1: ("clamped", -1.0, 1.0),
    CellActivation.RELU6: ("clamped", 0.0, 6.0),
    CellActivation.TANH: ("tanh", 0.0, 0.0),
    CellActivation.SIGMOID: ("logistic", 0.0, 0.0),
}
