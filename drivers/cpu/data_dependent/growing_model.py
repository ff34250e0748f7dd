"""A model compiled as a whole in which lengths change while it runs, such as a list that grows."""

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, cast

from neurald.drivers.compiler.ir.string_references import stored_bytes
from neurald.drivers.cpu.native.instances.growing_call import GrowingCall
from neurald.drivers.cpu.native.instances.growing_instance import GrowingBinding
from neurald.drivers.cpu.native.instances.instance import LengthsRefused
from neurald.drivers.cpu.native.instances.short_steps import should_keep_gil
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.parts.native_segment import NativeSegment, whole_steps
from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel, has_string_ports, stored_like
from neurald.drivers.cpu.prepared_model import CpuPreparedModel, address_of, timed
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape
from neurald.hal.errors import Error, OpFailed
from neurald.hal.execution.direct_calls import ArrayFunction, ShortExecution
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.execution.reference_graph import Step
from neurald.hal.execution.reusable import ReusableExecution
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation

#: After code was not valid for lengths, how many runs are on references until it is tried again.
_REFUSALS: Final = 32
#: How many times as long steps may keep the GIL, since Python frames of the regular way do, too.
_LONGER: Final = 2
#: The same for those that release it, since these frames take tens of microseconds; longer ones may
#: use several threads.
_MUCH_LONGER: Final = 15
#: Writing larger results takes longer than a call that is repeated, which has memory of its own.
_MAX_SHORT_BYTES: Final = 32 << 20


class GrowingModel(CpuPreparedModel):
    """Implements `neurald.hal.device.PreparedModel`.

    Executions with lengths for which the code is not valid run on references.

    Args:
        native: the compiled model.
        opened: its step.
        model: the model.
        lengths: the lengths of the inputs, see `OpenExecutable.input_lengths`; None if the model
            specifies them.
    """

    def __init__(
        self,
        native: NativeModel,
        opened: OpenExecutable,
        model: Model,
        lengths: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(native, lambda: PartlyCompiledModel(model))
        self._model = model
        #: Whether the code was not valid for the lengths of the latest execution.
        self._is_refused = False
        self._lengths = (0,) * len(opened.symbols) if lengths is None else lengths
        self._input_shapes = opened.input_shapes(self._lengths)
        self._input_sizes = [
            stored_bytes(port.operand.type, shape)
            for port, shape in zip(native.executable.inputs, self._input_shapes, strict=True)
        ]
        one, other = (opened.output_shapes([length] * len(opened.symbols)) for length in (2, 3))
        #: The shapes of the outputs; lengths that may change are 0.
        self._shapes = [
            tuple(length if length == another else 0 for length, another in zip(*shapes, strict=True))
            for shapes in zip(one, other, strict=True)
        ]

    def run_others_by(self, make: Callable[[], PartlyCompiledModel]) -> None:
        """Sets what makes the model that runs executions for which the code is not valid."""
        self._make_references = make

    def references(self) -> PartlyCompiledModel:
        """Returns the model that runs executions for which the code is not valid."""
        # That is what the constructor has said.
        return cast("PartlyCompiledModel", super().references())

    @property
    def steps(self) -> list[list[Step]]:
        """The steps of each graph of the model that do the same; the compiled one is whole."""
        return whole_steps(self._model, self.native)

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """See `CpuPreparedModel.operand`."""
        operand = super().operand(index, is_output=is_output)
        return Operand(
            type=operand.type,
            dimensions=self._shapes[index] if is_output else self._input_shapes[index],
            scale=operand.scale,
            zero_point=operand.zero_point,
        )

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. Deadlines and cancellation also interrupt long kernels."""
        started = time.monotonic_ns()
        options.require_start()
        if any(argument.pool is None for argument in request.inputs):
            return self.on_references(request, options)
        outputs = _Outputs(self, request)
        results: list[ExecutionResult] = []
        binding = self._binding_of(request, outputs, results)
        asked, taken = time.monotonic_ns(), list[int]()
        try:
            self.native.run(binding, options.deadline_s, options.cancellation, taken, options.loop_timeout_s)
        except LengthsRefused:
            self._is_refused = True
            return self.on_references(request, options)
        self._is_refused = False
        return timed(results[-1], started, asked, taken[0]) if options.measure else results[-1]

    def create_reusable_execution(self, request: Request) -> ReusableExecution | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        if any(argument.pool is None for argument in request.inputs):
            return None
        if self._is_refused:
            return self.references().create_reusable_execution(request)
        outputs, run, binding_of = _Outputs(self, request), self.native.run, self._binding_of
        repeat = self.native.repeating_function(self._lengths)
        arrays = [] if repeat is None else self._input_arrays(request)

        def execute(cancellation: Cancellation) -> ExecutionResult:
            found = None if repeat is None else repeat(arrays, cancellation)
            if found is not None:
                result = outputs.result([each.shape for each in found])
                if not result.is_sufficient:
                    raise OpFailed("the outputs do not fit")
                outputs.write(found)
                return result
            results: list[ExecutionResult] = []
            try:
                run(binding_of(request, outputs, results), None, cancellation)
            except LengthsRefused:
                raise OpFailed("its code is not valid for the lengths that it has found") from None
            if not results[-1].is_sufficient:
                raise OpFailed("the outputs do not fit")
            return results[-1]

        return execute

    def _input_arrays(self, request: Request) -> list[Array]:
        """Returns the inputs of a request, which are not strings, in their memory."""
        found = []
        ports = zip(self.native.executable.inputs, self._input_shapes, self._input_sizes, strict=True)
        for argument, (port, shape, size) in zip(request.inputs, ports, strict=True):
            assert argument.pool is not None  # noqa: S101 - the caller has looked
            view = request.pools[argument.pool].view(argument.offset, size)
            found.append(np.ndarray(shape, port.operand.type.dtype, view))
        return found

    def _binding_of(
        self, request: Request, outputs: "_Outputs", results: list[ExecutionResult]
    ) -> GrowingBinding:
        """Returns the binding of a request, which appends the execution's result to `results`."""

        def receive(shapes: Sequence[tuple[int, ...]]) -> Sequence[int] | None:
            result = outputs.result(shapes)
            results.append(result)
            return outputs.addresses if result.is_sufficient else None

        inputs = [
            (address_of(request, argument, size), size)
            for size, argument in zip(self._input_sizes, request.inputs, strict=True)
        ]
        return GrowingBinding(
            inputs=inputs, lengths=self._lengths, receive=receive, is_apart=outputs.are_apart
        )

    def create_native_call(self, request: Request) -> NativeCall | None:
        """See `CallsNatively.create_native_call`; none, since each call may find other lengths."""
        del request
        return None

    def create_short_execution(self, request: Request) -> ShortExecution | None:
        """See `CallsDirectly.create_short_execution`."""
        if self._is_refused or any(argument.pool is None for argument in request.inputs):
            return None
        outputs = _Outputs(self, request)
        # Outputs are written before it is known whether they have the same sizes as before.
        if not outputs.are_apart:
            return None
        inputs = [address_of(request, each, each.length) for each in request.inputs]
        room = [argument.length for argument in request.outputs]
        call = self.native.growing_call(self._lengths, room=room)
        if call is None or not outputs.result(call.expected_shapes()).is_sufficient:
            return None
        call.bind(inputs, outputs.addresses)
        if not should_keep_gil(call.time_ns, factor=_LONGER):
            return None
        run, write, shapes = call.run, call.write, call.shapes
        # Another execution may have had the lengths that the call expects at first.
        is_told = False

        def execute() -> bool | ExecutionResult:
            nonlocal is_told
            lengths = run()
            if lengths is None:
                return False
            if not lengths:
                if is_told:
                    return True
                is_told = True
                return outputs.result(call.expected_shapes())
            is_told = True
            result = outputs.result(shapes(lengths))
            if not result.is_sufficient:
                return False
            write(lengths)
            return result

        return execute

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`.

        The function creates outputs of the sizes that it finds, so that nothing is executed twice.
        """
        if variables or list(shapes) != self._input_shapes:
            return None
        ports = self.native.executable.inputs
        expected = [(port.operand.type.dtype, shape) for port, shape in zip(ports, shapes, strict=True)]
        call: GrowingCall | None = None
        is_timed, refusals = False, 0
        on_references: ArrayFunction | None = None
        repeat = self.native.repeating_function(self._lengths)

        def run(*arrays: Array) -> list[Array] | None:
            nonlocal call, is_timed, refusals, on_references
            is_used = False
            if call is not None:
                results = call.run_arrays(*arrays)
                if results is not None:
                    return results
                is_used = call.is_used()
            elif is_timed and repeat is not None and on_references is None:
                try:
                    results = repeat(arrays, None)
                except (Error, MemoryError):
                    # The execution of a request raises the error.
                    return None
                if results is not None:
                    return results
            if not stored_like(arrays, expected):
                return None
            if on_references is not None:
                refusals += 1
                if refusals % _REFUSALS:
                    return on_references(*arrays)
            try:
                results = self.native.run_arrays(arrays)
                on_references = None
                # A longer length than before needs a call with more memory.
                may_be_short = sum(result.nbytes for result in results) <= _MAX_SHORT_BYTES
                if may_be_short and (not is_timed or (call is not None and not is_used)):
                    call, is_timed = self._short_call(arrays, call), True
            except LengthsRefused:
                on_references = self.references().create_array_function(shapes, ())
                return None if on_references is None else on_references(*arrays)
            except (Error, MemoryError):
                # The execution of a request raises the error.
                return None
            return results

        return run

    def _short_call(self, arrays: Sequence[Array], earlier: GrowingCall | None) -> GrowingCall | None:
        """Returns what repeats the last execution on arrays instead of `earlier`, if short."""
        for releases_gil, factor in ((False, _LONGER), (True, _MUCH_LONGER)):
            # Each call has memory of its own.
            call = self.native.growing_call(self._lengths, earlier)
            if call is None:
                return None
            call.bind_arrays(releases_gil=releases_gil)
            if should_keep_gil(partial(call.time_ns, arrays=arrays), factor=factor):
                return call
        return None


def model_of_parts(model: Model, graphs: Sequence[Sequence[Step]]) -> GrowingModel | PartlyCompiledModel:
    """Returns the prepared model of parts; a single part in which lengths change is whole.

    Args:
        model: the model.
        graphs: the steps of each of its graphs.
    """
    if len(graphs[0]) == 1 and not has_string_ports(model):
        (step,) = graphs[0]
        main = model.main
        if isinstance(step, NativeSegment) and (step.inputs, step.outputs) == (main.inputs, main.outputs):
            opened = step.native.opened
            if opened is not None:
                return GrowingModel(step.native, opened, model)
    return PartlyCompiledModel(model, graphs)


class _Outputs:
    """The outputs of a request, and the results for their shapes. Thread-safe.

    Attributes:
        addresses: where they are.
        are_apart: whether they overlap neither each other nor inputs.
    """

    def __init__(self, model: GrowingModel, request: Request) -> None:
        self._kinds = [port.operand.type for port in model.native.executable.outputs]
        self._lengths = [argument.length for argument in request.outputs]
        arguments = (*request.outputs, *request.inputs)
        addresses = [address_of(request, argument, argument.length) for argument in arguments]
        ranges = sorted(
            (address, address + each.length) for address, each in zip(addresses, arguments, strict=True)
        )
        self.are_apart: Final = all(end <= start for (_, end), (start, _) in pairwise(ranges))
        self.addresses: Final = addresses[: len(request.outputs)]
        self._last: tuple[Sequence[tuple[int, ...]], ExecutionResult] | None = None

    def write(self, arrays: Sequence[Array]) -> None:
        """Copies outputs that fit to where they are wanted."""
        for address, array in zip(self.addresses, arrays, strict=True):
            ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def result(self, shapes: Sequence[tuple[int, ...]]) -> ExecutionResult:
        """Returns the result for these shapes; the same object as long as they stay the same."""
        last = self._last
        if last is not None and last[0] == shapes:
            return last[1]
        outputs = [OutputShape(dimensions=shape) for shape in shapes]
        sizes = [output.size_bytes(kind) or 0 for output, kind in zip(outputs, self._kinds, strict=True)]
        result = ExecutionResult(
            output_shapes=tuple(
                OutputShape(dimensions=shape, sufficient=size <= length)
                for shape, size, length in zip(shapes, sizes, self._lengths, strict=True)
            )
        )
        self._last = shapes, result
        return result
