"""Epilogue of a quantised kernel: a rescaling, a rescaling with a residual, or any other body."""

from functools import cached_property

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.expression import AccumulatorRef, Expression, accumulator
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import rewrite, walk
from neurald.drivers.cpu.kernels.int8.epilogue.rescaling import Rescaling
from neurald.drivers.cpu.kernels.int8.epilogue.residual import Residual, find_residual
from neurald.drivers.cpu.schedule.short_sums import use_short_sums, use_short_sums_of_pairs
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace


class QuantizedEpilogue:
    """Epilogue of a kernel's sums.

    Args:
        kernel: a flattened kernel, whose axes are position and channel.
        rescaling: the rescaling that the body begins with; None if it begins with something else.
    """

    def __init__(self, kernel: Kernel, rescaling: Rescaling | None) -> None:
        self.rescaling = rescaling
        self.kernel = kernel
        if rescaling is None:
            return
        stored_value = accumulator(rescaling.type)

        def found(expression: Expression) -> Expression | None:
            return stored_value if expression is rescaling.expression else None

        memory: dict[Expression, Expression] = {}
        self.kernel = replace(
            kernel,
            body=rewrite(kernel.body, found, memory),
            requirements=tuple((rewrite(each, found, memory), text) for each, text in kernel.requirements),
        )

    def with_short_sums(self, target: Target) -> "QuantizedEpilogue":
        """Returns the epilogue whose functions of one byte or two are computed in 32 bits."""
        kernel = use_short_sums(use_short_sums_of_pairs(self.kernel, target), target)
        return QuantizedEpilogue(kernel, self.rescaling)

    @property
    def is_whole(self) -> bool:
        """True if the body reads rescaled sums only."""
        kinds = {each.type for each in walk(*self.kernel.roots) if isinstance(each, AccumulatorRef)}
        return self.rescaling is None or kinds == {self.rescaling.type}

    @property
    def is_stored(self) -> bool:
        """True if rescaled sums are stored without further computation."""
        return (
            self.rescaling is not None
            and isinstance(self.kernel.body, AccumulatorRef)
            and not self.kernel.requirements
        )

    @cached_property
    def residual(self) -> Residual | None:
        """The residual that the body computes, or None."""
        return None if self.rescaling is None else find_residual(self.kernel, self.rescaling)

    @property
    def rows(self) -> int:
        """Number of rows of epilogue constants in a panel."""
        return 0 if self.rescaling is None else self.rescaling.row_count

    def starts(self, starts: Array) -> Array:
        """Returns the initial sums, (groups, channels)."""
        if self.rescaling is None:
            return starts
        return np.asarray(starts + self.rescaling.starts().reshape(starts.shape))

    def words(self, groups: int, channels: int) -> Array:
        """Returns the epilogue constants, (rows, groups, channels)."""
        if self.rescaling is None:
            return np.zeros((0, groups, channels), np.int64)
        return self.rescaling.rows().reshape(self.rows, groups, channels)
