"""Parameters of cells that operations may omit or store as integers."""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.cpu.first_tier.binding.scope import (
    BindingScope,
    count_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundConstant, NotBound
from neurald.hal.operations.arithmetic.quantized import real
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.recurrent.recurrent import (
    is_given,
)


def is_present(call: Call, name: str) -> bool:
    """Returns True if an input exists and is given."""
    return name in call.binding.inputs and is_given(call, name)


def unit_rows(scope: BindingScope, call: Call, units: int, names: Sequence[str | None]) -> BoundConstant:
    """Returns parameters of units, a row for each name; 0 for those that are omitted."""
    found = np.zeros((len(names), units), np.float32)
    for row, name in zip(found, names, strict=True):
        if name is not None and is_present(call, name):
            row[:] = real_constant(scope, call, name)
    return BoundConstant.of(found)


def real_constant(scope: BindingScope, call: Call, name: str) -> Array:
    """Returns a constant as floats, which may be stored as integers."""
    if count_of(call, name) == 0:
        raise NotBound("there are no elements")
    scope.constant(call, name)
    return np.asarray(real(call, name), np.float32)
