"""The interface of compiled operations within a graph that otherwise runs on references."""

from collections.abc import Sequence
from typing import Protocol

from neurald.hal.accounting.account import Reservation
from neurald.hal.device import ExecuteOptions, KernelTime
from neurald.hal.operations.machinery.call import Array


class CompiledSegment(Protocol):
    """Implements some operations of a graph in place of their references."""

    @property
    def operations(self) -> tuple[int, ...]:
        """The positions of the operations, in ascending order."""
        ...

    @property
    def inputs(self) -> tuple[int, ...]:
        """The operands that the segment reads."""
        ...

    @property
    def outputs(self) -> tuple[int, ...]:
        """The operands that the segment writes."""
        ...

    @property
    def is_tolerant(self) -> bool:
        """True if executions stay inside their memory even if inputs change meanwhile."""
        ...

    def run(
        self, inputs: Sequence[Array | None], options: ExecuteOptions
    ) -> list[tuple[Array, Reservation]] | None:
        """Computes the outputs, each with the reservation of its memory.

        Returns:
            None if inputs are missing, or have other shapes than the segment was compiled for.

        Raises:
            Error: the execution failed; see `PreparedModel.execute`.
        """
        ...

    def profile(self) -> Sequence[KernelTime]:
        """Returns the times of the segment's kernels."""
        ...
