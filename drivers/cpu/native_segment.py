"""Operations of a graph that are implemented by a compiled step."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field

from neurald.drivers.cpu.native.growing_instance import LengthsRefused
from neurald.drivers.cpu.native.instance import ArgumentBinding
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.hal.accounting.account import Reservation, reserve
from neurald.hal.device import ExecuteOptions, KernelTime
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.execution.reference_graph import Step
from neurald.hal.model.types import Model
from neurald.hal.operations.machinery.call import Array


class NativeSegment(Struct, frozen=True, kw_only=True, eq=False):
    """Implements `neurald.hal.execution.compiled_segment.CompiledSegment`.

    Attributes:
        operations: their positions, ascending.
        inputs, outputs: operands that are the inputs and outputs of the step.
        functions: what runs a short step without Python's overhead, made by the first run.
    """

    operations: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    native: NativeModel
    functions: list[ArrayFunction | None] = field(default_factory=list)

    @property
    def is_tolerant(self) -> bool:
        """See `CompiledSegment.is_tolerant`."""
        return self.native.executable.is_tolerant

    def run(
        self, inputs: Sequence[Array | None], options: ExecuteOptions
    ) -> list[tuple[Array, Reservation]] | None:
        """See `CompiledSegment.run`."""
        executable = self.native.executable
        if not self.functions:
            self.functions.append(None if executable.bounded else self.native.short_array_function())
        # Two threads may have made one; either will do.
        short = self.functions[0]
        if short is not None and not any(each is None for each in inputs):
            arrays = short(*inputs)
            # It refuses inputs of other types, shapes or memory layouts.
            if arrays is not None:
                return [(each, reserve(each.nbytes, "results of a compiled step")) for each in arrays]
        given = [
            np.ascontiguousarray(value, port.operand.type.dtype)
            for value, port in zip(inputs, executable.inputs, strict=True)
            if value is not None and (self.native.opened is not None or value.shape == port.dimensions)
        ]
        if len(given) < len(inputs):
            return None
        limits = options.deadline_s, options.cancellation, options.loop_timeout_s
        if self.native.opened is not None:
            try:
                found = self.native.run_arrays(given, *limits)
            except LengthsRefused:
                return None
            return [(each, reserve(each.nbytes, "results of a compiled step")) for each in found]
        visible = executable.visible_outputs
        reservations = [reserve(port.size_bytes, "results of a compiled step") for port in visible]
        results = self.native.run_arrays(given, *limits)
        if executable.bounded:
            shapes = executable.output_shapes([each.item() for each in results[len(visible) :]])
            results = [
                array.reshape(-1)[: math.prod(shape)].reshape(shape)
                for array, shape in zip(results, shapes, strict=False)
            ]
        return list(zip(results, reservations, strict=True))

    def array_function(self, shapes: Sequence[tuple[int, ...]]) -> ArrayFunction | None:
        """Returns a function that runs the step on arrays of these shapes; None if there is none."""
        executable = self.native.executable
        inputs, outputs = executable.inputs, executable.outputs
        if executable.bounded or list(shapes) != [port.dimensions for port in inputs]:
            return None
        binding = ArgumentBinding(executable, [None] * len(inputs), [None] * len(outputs))
        return self.native.array_function(binding, None)

    def profile(self) -> Sequence[KernelTime]:
        """See `CompiledSegment.profile`."""
        return self.native.profile()


def whole_steps(model: Model, native: NativeModel) -> list[list[Step]]:
    """Returns the steps of each graph of a model that is compiled as a whole."""
    main = model.main
    whole = NativeSegment(
        operations=tuple(range(len(main.operations))),
        inputs=main.inputs,
        outputs=main.outputs,
        native=native,
    )
    return [[whole], *([*range(len(graph.operations))] for graph in model.referenced)]
