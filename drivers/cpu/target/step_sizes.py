"""The sizes of a step for given lengths, on which its memory and its records depend.

A step runs in another size once its records have these numbers. The executable that also describes
all else is made of them where it is needed.
"""

from collections.abc import Callable
from functools import cached_property

from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.cpu.target.executable import Executable
from neurald.hal.lazy_numpy import Array, np


class StepSizes:
    """The sizes of one step for given lengths. Compared by identity.

    Args:
        inputs, outputs: the ports.
        records: the words of the record of each call that depend on its size, of calls that are not
            divided; None to take them from the executable.
        costs_ns, offsets, extents: see `KernelCalls` and `Executable`.
        cost_ns: the sum of the costs.
        arena_bytes, scratch_bytes: see `Executable`.
        make: makes the executable.

    Attributes:
        is_divided: whether `StepRecords` has divided long calls in the records.
    """

    def __init__(
        self,
        *,
        inputs: tuple[Port, ...],
        outputs: tuple[Port, ...],
        records: Array | None,
        costs_ns: Array,
        cost_ns: float,
        offsets: Array,
        extents: Array,
        arena_bytes: int,
        scratch_bytes: int,
        make: "Callable[[StepSizes], Executable]",
    ) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.records, self.costs_ns, self.cost_ns = records, costs_ns, cost_ns
        self.offsets, self.extents = offsets, extents
        self.arena_bytes, self.scratch_bytes = arena_bytes, scratch_bytes
        self.input_shapes = tuple([port.dimensions for port in inputs])
        self.output_shapes = tuple([port.dimensions for port in outputs])
        self.is_divided = False
        self._make = make

    @classmethod
    def of(cls, executable: Executable) -> "StepSizes":
        """Returns the sizes of an executable."""
        calls = executable.calls
        return cls(
            inputs=executable.inputs,
            outputs=executable.outputs,
            records=None,
            costs_ns=np.array(calls.costs_ns, np.float64),
            cost_ns=sum(calls.costs_ns),
            offsets=np.frombuffer(calls.offsets, np.int64),
            extents=np.array(executable.extents, np.int64),
            arena_bytes=executable.arena_bytes,
            scratch_bytes=executable.scratch_bytes,
            make=lambda _: executable,
        )

    @cached_property
    def executable(self) -> Executable:
        """The step in this size."""
        return self._make(self)
