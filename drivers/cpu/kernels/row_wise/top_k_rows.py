"""The loop over rows and the storing of results, which all routines of top-k have in common."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.codegen.epilogue import arguments_of, epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.addressing import address, multiple, total
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target


class TopKRows:
    """Writes a function on the rows of a top-k. A work item is a row.

    Args:
        kernel: the kernel; its output is not empty.
        node: its top-k.
        target: the target of the code.

    Attributes:
        code: receives the instructions.
    """

    def __init__(self, kernel: Kernel, node: TopK, target: Target) -> None:
        self._kernel, self._node, self._target = kernel, node, target
        self._arguments = arguments_of(kernel)
        self.code = Instructions(parameter_names(self._arguments))
        self._pointers = pointer_names(self._arguments)

    @property
    def count(self) -> int:
        """The number of rows."""
        return math.prod(self._node.output.shape[:-1])

    @contextmanager
    def each(self) -> Iterator[tuple[list[str], str]]:
        """Writes a loop over the rows.

        Yields:
            The position of the row in the output, and the address of its elements.
        """
        code, outer, given = self.code, self._node.output.shape[:-1], self._node.input
        with each_work_item(code, (*outer, 1)) as (position, _):
            terms = (multiple(code, at, math.prod(outer[d + 1 :])) for d, at in enumerate(position[:-1]))
            row = multiple(code, total(code, *terms, "0"), given.shape[-1] * given.type.size_bytes)
            yield position[:-1], address(code, self._pointers[given], row)

    def store(self, index: str, row: list[str], rank: str) -> None:
        """Stores the index of an element, as an i32, as the result of a row with a rank."""
        epilogue(self._kernel, self._target, self.code, index, (*row, rank), 1, pointers=self._pointers)

    def routine(
        self, cycles: float, label: str, *, scratch_bytes: int = 0, work_items: int | None = None
    ) -> Routine:
        """Returns the routine whose instructions were written.

        Args:
            cycles: the estimated cycles of a row.
            label: says what the routine does.
            scratch_bytes: the size of what it keeps while it works on a row.
            work_items: their number; None for one for each row.
        """
        return Routine(
            text=function_text(self.code, self._arguments),
            arguments=self._arguments,
            work_items=self.count if work_items is None else work_items,
            cost_ns=cost_ns(self.count * cycles, self._arguments),
            declarations=frozenset(self.code.declarations),
            scratch_bytes=scratch_bytes,
            label=label,
            operations=self._kernel.operations,
        )
