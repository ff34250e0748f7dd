"""Kernels of the first tier with their arguments."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from neurald.hal.operations.machinery.call import Array


class NotBound(Exception):
    """An operation has no kernel in the first tier."""


class BoundConstant(Struct, frozen=True, kw_only=True, eq=False):
    """Data that a kernel reads.

    Attributes:
        dtype, shape: the data type and shape of the array.
        fill: fills the array, which has zeros; None for zeros.
    """

    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    fill: Callable[[Array], None] | None

    @classmethod
    def of(cls, array: Array) -> "BoundConstant":
        """Returns the constant with the contents of an array."""

        def fill(target: Array) -> None:
            target[...] = array

        return cls(dtype=array.dtype, shape=array.shape, fill=fill)

    @property
    def size_bytes(self) -> int:
        """Size of the array."""
        return math.prod(self.shape) * self.dtype.itemsize


class BoundTemporary(Struct, frozen=True, kw_only=True, eq=False):
    """Memory between two kernels of an operation."""

    size_bytes: int


class BoundCall(Struct, frozen=True, kw_only=True):
    """A kernel with its arguments.

    Attributes:
        function: its name.
        arguments: the output first: indexes of operands, constants, and temporaries.
        words: sizes and other parameters.
        work_items, cost_ns: see `neurald.drivers.cpu.target.routine.Routine`.
        messages: see `neurald.drivers.cpu.target.kernel_calls.KernelCall`.
    """

    function: str
    arguments: tuple[int | BoundConstant | BoundTemporary, ...]
    words: tuple[int, ...]
    work_items: int
    cost_ns: float
    messages: tuple[str, ...] = ()
