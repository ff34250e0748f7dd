"""Operations of a graph that are implemented by a compiled step."""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct, field

from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.instances.instance import LengthsRefused
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.hal.accounting.account import Reservation, reserve
from neurald.hal.device import ExecuteOptions, KernelTime
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.execution.reference_graph import Step
from neurald.hal.model.elements import first_elements
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation


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
        short = self.short_function()
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
            results = [first_elements(array, shape) for array, shape in zip(results, shapes, strict=False)]
        return list(zip(results, reservations, strict=True))

    def short_function(self) -> ArrayFunction | None:
        """Returns a function that runs a short step without Python's overhead; None for others."""
        if not self.functions:
            is_bounded = self.native.executable.bounded
            self.functions.append(None if is_bounded else self.native.short_array_function())
        # Two threads may have made one; either will do.
        return self.functions[0]

    def cancellable_function(
        self, shapes: Sequence[tuple[int, ...] | None]
    ) -> Callable[[Sequence[Array | None], Cancellation], list[Array] | None] | None:
        """Returns a function that runs the step on arrays of these shapes, or None."""
        binding = self._unbound(shapes)
        return None if binding is None else self.native.cancellable_function(binding)

    def array_function(self, shapes: Sequence[tuple[int, ...]]) -> ArrayFunction | None:
        """Returns a function that runs the step on arrays of these shapes, or None."""
        binding = self._unbound(shapes)
        return None if binding is None else self.native.array_function(binding, None)

    def _unbound(self, shapes: Sequence[tuple[int, ...] | None]) -> ArgumentBinding | None:
        """Returns the binding to arrays of these shapes; None if the step does not take them."""
        executable = self.native.executable
        inputs, outputs = executable.inputs, executable.outputs
        if executable.bounded or list(shapes) != [port.dimensions for port in inputs]:
            return None
        return ArgumentBinding(executable, [None] * len(inputs), [None] * len(outputs))

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
