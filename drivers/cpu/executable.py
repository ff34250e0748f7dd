"""A compiled step as data: everything that it takes to run its object code, and nothing of how it came about.

Values lie in two buffers, see `neurald.drivers.compiler.placement`. Inputs and outputs have places there too, but where a
request's own memory is aligned, kernels get pointers to it instead.
"""

import msgspec

from neurald.drivers.compiler.placement import BufferLocation, Port


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One kernel of the step, to run after those before it.

    Attributes:
        function: its name in the object code.
        places: its arguments, the one that is written first.
        grains, cost_ns: see `neurald.drivers.cpu.routine.Routine`.
        messages: what a failed requirement means; the first is number 1.
        label: how the kernel computes, for profiles.
        operations: the positions in the model of the operations that it stands for.
    """

    function: str
    places: tuple[BufferLocation, ...]
    grains: int
    cost_ns: float
    messages: tuple[str, ...] = ()
    label: str = ""
    operations: tuple[int, ...] = ()


class Executable(msgspec.Struct, frozen=True, array_like=True):
    """A step.

    Attributes:
        target: the name of the target that its code is for.
        input_arguments: for each input the arguments that are it, counted over all calls.
        output_arguments: for each output those that are it, or a part of it; none where kernels also read it, because what is in
            a request's memory by then may no longer be what was written.
        arena_bytes, constants_bytes: of the buffers.
        scratch_bytes: what each thread needs besides.
        unshared_bytes: what the arena would have if no two values shared bytes.
        is_tolerant: whether it stays inside its memories even if inputs change meanwhile.
    """

    target: str
    calls: tuple[Call, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    input_arguments: tuple[tuple[int, ...], ...]
    output_arguments: tuple[tuple[int, ...], ...]
    arena_bytes: int
    constants_bytes: int
    scratch_bytes: int
    unshared_bytes: int
    is_tolerant: bool
