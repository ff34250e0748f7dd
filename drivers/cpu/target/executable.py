"""Data of a compiled step: everything needed to run its object code.

All values are in two buffers; see `neurald.drivers.compiler.memory.buffer_assignment`. Inputs and
outputs have locations there too, but kernels access a request's own memory directly if it is
suitably aligned.
"""

from typing import Final

import msgspec

from neurald.drivers.compiler.memory.buffer_assignment import BufferLocation, Port

#: Size of an extent that kernels read.
WORD_BYTES: Final = 8


class KernelCall(msgspec.Struct, frozen=True, array_like=True):
    """A kernel of the step; the kernels of a step run in order.

    Attributes:
        function: its name in the object code.
        locations: locations of its arguments; the output first.
        work_items, cost_ns: see `neurald.drivers.cpu.target.routine.Routine`.
        messages: messages of failed requirements, which are numbered from 1.
        label: describes the algorithm, for profiles.
        operations: positions in the model of the operations that it implements.
    """

    function: str
    locations: tuple[BufferLocation, ...]
    work_items: int
    cost_ns: float
    messages: tuple[str, ...] = ()
    label: str = ""
    operations: tuple[int, ...] = ()


class Executable(msgspec.Struct, frozen=True, array_like=True):
    """A compiled step.

    Attributes:
        target: name of the code's target.
        input_arguments: for each input, its arguments, numbered over all calls.
        output_arguments: for each output, its arguments or those that are parts of it; empty if
            kernels also read it, because the application may change a request's memory after it was
            written.
        arena_bytes, constants_bytes: sizes of the buffers.
        scratch_bytes: additional memory per thread.
        unshared_bytes: size of the arena if no values shared bytes.
        is_tolerant: True if no access leaves its memory even if inputs change during the execution.
        extents: lengths that kernels read at run time, each in a word of 64 bits.
    """

    target: str
    calls: tuple[KernelCall, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    input_arguments: tuple[tuple[int, ...], ...]
    output_arguments: tuple[tuple[int, ...], ...]
    arena_bytes: int
    constants_bytes: int
    scratch_bytes: int
    unshared_bytes: int
    is_tolerant: bool
    extents: tuple[int, ...] = ()
