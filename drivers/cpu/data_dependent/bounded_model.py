"""A model compiled as a whole whose numbers of results follow from data.

Kernels write each such output with the size of its upper bound, and the number of its rows. The
rows that exist are then copied to the request's memory, if they fit.
"""

import ctypes
import math
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from neurald.drivers.cpu.native.instances.argument_binding import ArgumentBinding
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.prepared_model import CpuPreparedModel, address_of, timed
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.hal.accounting.account import reserve
from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult, OutputShape
from neurald.hal.errors import OpFailed
from neurald.hal.execution.direct_calls import ArrayFunction, ShortExecution
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.execution.reusable import ReusableExecution
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.pool import Memory
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.elements import MAX_KEPT_FACTOR
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    from neurald.hal.execution.reference_model import ReferenceModel

#: The number of an output, its elements that exist, and whether these are copied; see
#: `MAX_KEPT_FACTOR`.
_Part: TypeAlias = tuple[int, slice | tuple[slice, ...], bool]

#: Number of requests whose buffers are kept.
_REQUEST_CACHE_SIZE: Final = 8


def on_references(model: Model) -> "Callable[[], ReferenceModel]":
    """Returns what prepares a model on references, which few executions need."""

    def prepare() -> "ReferenceModel":
        from neurald.hal.execution.reference_model import ReferenceModel

        return ReferenceModel(model)

    return prepare


def whole_model(
    native: NativeModel,
    references: "Callable[[], ReferenceModel] | None" = None,
    *,
    keeps_artifact: bool = False,
    artifact: Artifact | None = None,
) -> CpuPreparedModel:
    """Returns the prepared model of a model compiled as a whole; see `CpuPreparedModel`."""
    kind = BoundedModel if native.executable.bounded else CpuPreparedModel
    return kind(native, references, keeps_artifact=keeps_artifact, artifact=artifact)


class BoundedModel(CpuPreparedModel):
    """Implements `neurald.hal.device.PreparedModel`; some of the model's outputs are bounded.

    Args:
        native, references, keeps_artifact, artifact: see `CpuPreparedModel`.
    """

    def __init__(
        self,
        native: NativeModel,
        references: "Callable[[], ReferenceModel] | None" = None,
        *,
        keeps_artifact: bool = False,
        artifact: Artifact | None = None,
    ) -> None:
        super().__init__(native, references, keeps_artifact=keeps_artifact, artifact=artifact)
        self._requests: dict[int, tuple[weakref.ref[Request], _BoundRequest]] = {}

    def operand(self, index: int, *, is_output: bool) -> Operand:
        """See `CpuPreparedModel.operand`."""
        executable = self.native.executable
        if not is_output or not 0 <= index < len(executable.visible_outputs):
            return super().operand(index if not is_output else -1, is_output=is_output)
        return executable.output_operand(index)

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """See `PreparedModel.execute`. Deadlines and cancellation also interrupt long kernels."""
        started = time.monotonic_ns()
        options.require_start()
        if any(argument.pool is None for argument in request.inputs):
            return self.on_references(request, options)
        bound = self._bound(request)
        asked, taken = time.monotonic_ns(), list[int]()
        self.native.run(bound.binding, options.deadline_s, options.cancellation, taken)
        result = bound.finish()
        return timed(result, started, asked, taken[0]) if options.measure else result

    def create_reusable_execution(self, request: Request) -> ReusableExecution | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        known = self._requests.get(id(request))
        if known is None or known[0]() is not request:
            return None
        run, bound = self.native.run, known[1]

        def execute(cancellation: Cancellation) -> ExecutionResult:
            run(bound.binding, None, cancellation)
            result = bound.finish()
            if not result.is_sufficient:
                raise OpFailed("the outputs do not fit")
            return result

        return execute

    def create_native_call(self, request: Request) -> NativeCall | None:
        """See `CallsNatively.create_native_call`; none, since each call may find other rows."""
        del request
        return None

    def create_short_execution(self, request: Request) -> ShortExecution | None:
        """See `CallsDirectly.create_short_execution`."""
        if any(argument.pool is None for argument in request.inputs):
            return None
        read, written = (
            {address_of(request, argument, 0) for argument in arguments}
            for arguments in (request.inputs, request.outputs)
        )
        if not read.isdisjoint(written):
            # A failure must leave the memory as it was, so that the execution can be repeated.
            return None
        bound = self._bound(request)
        short, finish, last = (
            self.native.short_call(bound.binding, (request, bound)),
            bound.finish,
            bound.result,
        )
        if short is None:
            return None

        def execute() -> bool | ExecutionResult:
            nonlocal last
            if not short():
                return False
            result = finish()
            if result is last:
                return True
            last = result
            return result if result.is_sufficient else False

        return execute

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`.

        Outputs are computed in arrays of the size of the upper bound.
        """
        executable = self.native.executable
        if variables or list(shapes) != [port.dimensions for port in executable.inputs]:
            return None
        visible = len(executable.visible_outputs)
        nothing = [None] * len(executable.inputs), [None] * len(executable.outputs)
        function = self.native.array_function(ArgumentBinding(executable, *nothing), None)
        if function is None:
            return None
        # Most models have one number of rows, which takes less time alone than in a list.
        is_single = len(executable.outputs) == visible + 1
        latest: tuple[int | list[int], list[_Part]] = -1, []
        item = np.ndarray.item

        def run(*arrays: Array) -> list[Array] | None:
            nonlocal latest
            results = function(*arrays)
            if results is None:
                return None
            found: int | list[int]
            if is_single:
                found = item(results.pop())
            else:
                found = list(map(item, results[visible:]))
                del results[visible:]
            # Another thread may replace it at any time.
            known = latest
            if known[0] != found:
                counts = found if isinstance(found, list) else [found]
                latest = known = found, _parts(executable, counts)
            for output, rows, is_copied in known[1]:
                results[output] = results[output][rows].copy() if is_copied else results[output][rows]
            return results

        return run

    def _bound(self, request: Request) -> "_BoundRequest":
        """Returns the buffers and addresses for a request; the request keeps its memory alive."""
        known = self._requests.get(id(request))
        if known is not None and known[0]() is request:
            return known[1]
        bound = _BoundRequest(self.native.executable, request)
        if len(self._requests) >= _REQUEST_CACHE_SIZE:
            self._requests.clear()
        self._requests[id(request)] = weakref.ref(request), bound
        return bound


def _parts(executable: Executable, counts: Sequence[int]) -> "list[_Part]":
    """Returns the parts of results that exist, of those that have fewer rows than they may."""
    found: list[_Part] = []
    shapes = executable.output_shapes(counts)
    for each in executable.bounded:
        whole, shape = executable.visible_outputs[each.output].dimensions, shapes[each.output]
        if shape != whole:
            # All dimensions before that of the rows have one element. One slice takes less time.
            rows, before = slice(shape[each.dimension]), (slice(None),) * each.dimension
            is_few = MAX_KEPT_FACTOR * math.prod(shape) < math.prod(whole)
            found.append((each.output, (*before, rows) if before else rows, is_few))
    return found


class _BoundRequest:
    """Addresses of a request's arguments, and buffers for outputs that may be larger than theirs.

    Attributes:
        binding: the addresses.
        result: the result of the last `finish`.
    """

    def __init__(self, executable: Executable, request: Request) -> None:
        self._executable = executable
        ports = executable.visible_outputs
        self._counts = np.zeros(len(executable.outputs) - len(ports), np.int32)
        addresses: list[int] = []
        #: The number of an output, its buffer, and the memory of the request. Assignments between
        #: views take less time than `ctypes.memmove`.
        self._copied: list[tuple[int, memoryview, memoryview]] = []
        for number, (port, argument) in enumerate(zip(ports, request.outputs, strict=True)):
            if argument.length >= port.size_bytes:
                addresses.append(address_of(request, argument, port.size_bytes))
                continue
            buffer = aligned_zeros(port.size_bytes, ALIGNMENT)
            target = address_of(request, argument, argument.length)
            addresses.append(buffer.ctypes.data)
            memory = (ctypes.c_ubyte * argument.length).from_address(target)
            self._copied.append((number, buffer.data.cast("B"), memoryview(memory).cast("B")))
        self._reservation = reserve(sum(buffer.nbytes for _, buffer, _ in self._copied), "results of a model")
        first = self._counts.ctypes.data
        addresses += range(first, first + self._counts.nbytes, self._counts.itemsize)
        self.binding = ArgumentBinding(
            executable,
            [
                address_of(request, argument, port.size_bytes)
                for port, argument in zip(executable.inputs, request.inputs, strict=True)
            ],
            addresses,
        )
        self._lengths = [argument.length for argument in request.outputs]
        self._found: bytes | None = None
        #: Parts of buffers, and where they are copied to; none if a result does not fit.
        self._moves: list[tuple[memoryview, memoryview]] = []
        self.result = ExecutionResult(output_shapes=())

    def finish(self) -> ExecutionResult:
        """Copies the outputs to the request's memory, if they fit.

        Returns:
            The same object as before if the numbers of rows are those of before.
        """
        found = self._counts.tobytes()
        if found != self._found:
            self._describe(found)
        for source, target in self._moves:
            target[:] = source
        return self.result

    def _describe(self, found: bytes) -> None:
        """Makes the result for other numbers of rows than before."""
        self._found = found
        shapes = self._executable.output_shapes(np.frombuffer(found, np.int32).tolist())
        kinds = [port.operand.type for port in self._executable.visible_outputs]
        outputs = [OutputShape(dimensions=shape) for shape in shapes]
        sizes = [output.size_bytes(kind) or 0 for output, kind in zip(outputs, kinds, strict=True)]
        self.result = ExecutionResult(
            output_shapes=tuple(
                OutputShape(dimensions=shape, sufficient=size <= length)
                for shape, size, length in zip(shapes, sizes, self._lengths, strict=True)
            )
        )
        self._moves = []
        if self.result.is_sufficient:
            self._moves = [
                (source[: sizes[number]], target[: sizes[number]]) for number, source, target in self._copied
            ]
