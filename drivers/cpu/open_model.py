"""A model compiled for any lengths of its open dimensions, within the limits of its code."""

from collections.abc import Callable, Sequence
from functools import cached_property

from neurald.drivers.compiler.frontend.variants.kept_variants import OpenVariant
from neurald.drivers.cpu.data_dependent.bounded_model import whole_model
from neurald.drivers.cpu.data_dependent.growing_model import GrowingModel
from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.python_calls.python_call import python_table
from neurald.drivers.cpu.native.sizing.sized_executables import SizedExecutables
from neurald.drivers.cpu.open_artifact import write_open_artifact
from neurald.drivers.cpu.parts.native_segment import whole_steps
from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel, has_string_ports
from neurald.drivers.cpu.prepared_model import address_of
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult, OutputShape
from neurald.hal.errors import BadData
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.operations.machinery.call import Shape


class CpuOpenModel:
    """Implements `neurald.drivers.compiler.frontend.variants.open_models.OpenModel`.

    Args:
        model: the model.
        native: the step for the lengths that it was compiled for. Those for other lengths share its
            code and constants.
        opened: the executable for other lengths.
    """

    def __init__(self, model: Model, native: NativeModel, opened: OpenExecutable) -> None:
        self._model = model
        self._native = native
        self._opened = opened
        self._has_strings = has_string_ports(model)
        self._make_others: Callable[[], PartlyCompiledModel] | None = None

    def run_others_by(self, make: Callable[[], PartlyCompiledModel]) -> None:
        """See `GrowingModel.run_others_by`."""
        self._make_others = make

    @cached_property
    def _sized(self) -> SizedExecutables | None:
        """Executables for other lengths; None if lengths change while the step runs."""
        if self._opened.sizings:
            return None
        return SizedExecutables(self._opened, self._native.team.program.addresses)

    def output_shapes(self, shapes: Sequence[Shape | None]) -> tuple[Shape, ...] | None:
        """See `OpenModel.output_shapes`."""
        return None if self._sized is None else self._sized.output_shapes(shapes)

    def for_shapes(self, shapes: Sequence[Shape | None]) -> OpenVariant | None:
        """See `OpenModel.for_shapes`."""
        if self._sized is None:
            lengths = self._opened.input_lengths(shapes)
            if lengths is None:
                return None
            if self._has_strings:
                return OpenVariant(PartlyCompiledModel(self._model, whole_steps(self._model, self._native)))
            growing = GrowingModel(self._native, self._opened, self._model, lengths)
            if self._make_others is not None:
                growing.run_others_by(self._make_others)
            return OpenVariant(growing)
        sizes = self._sized.sizes(shapes)
        if sizes is None:
            return None
        native = self._native.resized(sizes)
        if self._has_strings:
            parts = PartlyCompiledModel(self._model, whole_steps(self._model, native))
            return OpenVariant(parts, native.own_bytes)
        return OpenVariant(whole_model(native, lambda: ReferenceModel(self._model)), native.own_bytes)

    def run_arrays(self, shapes: tuple[Shape, ...], arrays: Sequence[Array]) -> list[Array] | None:
        """See `OpenModel.run_arrays`."""
        binding, sized = self._binding, self._sized
        if binding is None or sized is None:
            return None
        sizes = sized.sizes(shapes)
        return None if sizes is None else self._native.run_on_arrays(binding, arrays, sizes)

    def execute(
        self, shapes: Sequence[Shape | None], request: Request, options: ExecuteOptions
    ) -> ExecutionResult | None:
        """See `OpenModel.execute`."""
        sized = self._sized
        if sized is None or self._has_strings or self._opened.template.bounded or options.measure:
            return None
        options.require_start()
        try:
            sizes = sized.sizes(shapes)
        except BadData:
            return None  # it is reported when the model for these shapes is made
        arguments = (*request.inputs, *request.outputs)
        if sizes is None or any(argument.pool is None for argument in arguments):
            return None
        if any(
            argument.length < port.size_bytes
            for port, argument in zip(sizes.outputs, request.outputs, strict=True)
        ):
            return None
        inputs, outputs = (
            [address_of(request, each, port.size_bytes) for port, each in zip(ports, given, strict=True)]
            for ports, given in ((sizes.inputs, request.inputs), (sizes.outputs, request.outputs))
        )
        self._native.run(
            ArgumentBinding(sizes, inputs, outputs),
            options.deadline_s,
            options.cancellation,
            loop_timeout_s=options.loop_timeout_s,
            sizes=sizes,
        )
        return ExecutionResult(
            output_shapes=tuple([OutputShape(dimensions=shape) for shape in sizes.output_shapes])
        )

    @cached_property
    def _binding(self) -> ArgumentBinding | None:
        """Binds inputs and outputs to arrays; None if the step does not run on them directly."""
        template = self._opened.template
        if not python_table() or self._has_strings or template.bounded:
            return None
        return ArgumentBinding(template, [None] * len(template.inputs), [None] * len(template.outputs))

    def artifact(self) -> Artifact:
        """Returns the contents of cache files, see `read_open_artifact`."""
        return write_open_artifact(self._native, self._opened)
