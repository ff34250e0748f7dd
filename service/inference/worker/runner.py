"""Runs a loaded model for one lane, with inputs and outputs in the lane's arena."""

import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import neurald as nd
from neurald.hal.errors import BadData, Cancelled, OutputInsufficientSize
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.lanes.byte_strings import encode_byte_strings
from neurald.hal.lanes.packets import Receipt, RunAnswer, RunOrder, TensorAt, aligned, kind_of
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.wording import counted
from neurald.service.inference.worker.loaded_model import LoadedModel
from neurald.service.inference.worker.sized_runs import Array, Shape

#: Number of kept executions, one for each set of inputs and places in the arena.
_KEPT: Final = 8


class BoundRun:
    """An execution whose inputs and outputs are bound to places in an arena."""

    def __init__(self, execution: nd.Execution, outputs: Sequence[Array]) -> None:
        self.execution = execution
        self.outputs = outputs
        #: Where the wanted outputs are, if they are there whatever the elements of inputs are.
        self.placed: tuple[TensorAt, ...] | None = None

    def create_native_call(self) -> NativeCall | None:
        """Returns what native code runs to repeat it; None if it cannot, or answers may differ."""
        return None if self.placed is None else self.execution.create_native_call()


class Runner:
    """Runs one model for one lane. Of its methods only `cancel` may be called by other threads.

    Args:
        model: the loaded model.
        is_trusted: whether the other side leaves the arena alone during a run. Otherwise inputs are
            copied, unless the code that runs the model now tolerates that they change.
    """

    def __init__(self, model: LoadedModel, *, is_trusted: bool) -> None:
        self._model = model
        self._is_trusted = is_trusted
        self._runs = model.create_runs()
        self._kinds = [kind_of(each) for each in self._runs.types]
        self._kept: OrderedDict[tuple[Any, ...], BoundRun] = OrderedDict()
        self._execution: nd.Execution | None = None
        self._is_cancelled = False

    def forget_arena(self) -> None:
        """Drops all that refers to the arena."""
        self._kept.clear()

    def expect(self) -> None:
        """Says that the next run begins soon, which `cancel` ends from now on."""
        self._is_cancelled = False

    def cancel(self) -> None:
        """Asks the run under way to end, if there is one, or the one that is expected."""
        self._is_cancelled = True
        execution = self._execution
        if execution is not None:
            execution.cancel()

    def bound_run(self, order: RunOrder) -> BoundRun | None:
        """Returns what is kept of the last run of an order."""
        return self._kept.get(_key(order))

    def run(self, order: RunOrder, arena: memoryview) -> tuple[RunAnswer, SharedMemory | None]:
        """Runs the model once.

        Returns:
            The answer, and the memory of the outputs if they did not fit into the arena.

        Raises:
            BadData: a tensor is not in the arena, or does not fit the model.
            Error: the execution failed.
        """
        began = time.perf_counter_ns()
        expected = self._model.description.inputs
        if len(order.inputs) != len(expected):
            raise BadData(f"{counted(len(order.inputs), 'input')} given; the model has {len(expected)}")
        if any(not 0 <= each < len(self._kinds) for each in order.wanted):
            raise BadData(f"an output is wanted that the model has not; it has {len(self._kinds)}")
        if order.results_end:
            arena = arena[: order.results_end]
        if not 0 <= order.results_at <= arena.nbytes:
            raise BadData(f"results are wanted at {order.results_at} of an arena of {arena.nbytes} bytes")
        # A first tier may have been replaced by code that tolerates it.
        copies = not (self._is_trusted or self._model.tolerates_changing_inputs)
        in_place = not copies and not self._runs.has_strings
        key = _key(order)
        bound = self._kept.get(key) if in_place else None
        read = time.perf_counter_ns()
        if bound is None or not self._repeated(bound, key):
            inputs = self._inputs_of(order, arena, copies=copies)
            read = time.perf_counter_ns()
            bound = self._bound(inputs, order, arena if in_place else None)
            if in_place:
                self._kept[key] = bound
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        outputs = bound.outputs
        ran = time.perf_counter_ns()
        memory: SharedMemory | None = None
        tensors = bound.placed
        if tensors is None:
            if not self._runs.are_fixed:
                outputs = self._runs.actual(bound.execution, outputs, _shapes(order.inputs))
            tensors, memory = self._placed(outputs, order, arena, bound)
        description = self._model.description
        receipt = Receipt(
            devices=description.devices,
            drivers=description.drivers,
            is_substituted=self._model.is_substituted,
            read_ns=read - began,
            run_ns=ran - read,
            written_ns=time.perf_counter_ns() - ran,
        )
        attached = 0 if memory is None else memory.size
        return RunAnswer(
            number=order.number, outputs=tensors, attached_bytes=attached, receipt=receipt
        ), memory

    def _inputs_of(self, order: RunOrder, arena: memoryview, *, copies: bool) -> list[Array]:
        """Returns the inputs of a run as arrays, after checking that they fit the model.

        Raises:
            BadData: what is wrong, with the strings of all inputs.
        """
        inputs: list[Array] = []
        faults: list[str] = []
        for given, description in zip(order.inputs, self._model.description.inputs, strict=True):
            if given.kind != description.kind:
                raise BadData(f"the input {description.name} is {given.kind}; {description.kind} is expected")
            owner = f" for inference input '{description.name}' for model '{self._model.name}'"
            try:
                array = given.in_arena(arena, owner)
            except BadData as error:
                faults.append(str(error))
            else:
                inputs.append(array.copy() if copies and not array.dtype.hasobject else array)
        if faults:
            raise BadData("; ".join(faults))
        return inputs

    def _repeated(self, bound: BoundRun, key: tuple[Any, ...]) -> bool:
        """Runs a kept execution again; returns False if its buffers are too small now."""
        try:
            self._compute(bound.execution)
        except OutputInsufficientSize as error:
            del self._kept[key]
            if all(shape is not None for shape in error.dimensions):
                self._runs.guess(_shapes(key[0]), [tuple(shape or ()) for shape in error.dimensions])
            return False
        return True

    def _compute(self, execution: nd.Execution) -> None:
        execution.expect()
        self._execution = execution
        try:
            if self._is_cancelled:
                raise Cancelled("the caller cancelled the run")
            execution.compute()
        finally:
            self._execution = None

    def _bound(self, inputs: Sequence[Array], order: RunOrder, arena: memoryview | None) -> BoundRun:
        """Runs the model with new buffers, with wanted outputs in the arena if they fit."""

        def allocate(shapes: Sequence[Shape]) -> list[Array]:
            return self._buffers(shapes, order, arena)

        return BoundRun(*self._runs.bind(inputs, allocate, self._compute))

    def _buffers(self, shapes: Sequence[Shape], order: RunOrder, arena: memoryview | None) -> list[Array]:
        """Returns arrays for all outputs; those that are wanted are in the arena while they fit."""
        arrays: list[Array] = []
        at = aligned(order.results_at)
        for position, (shape, dtype) in enumerate(zip(shapes, self._runs.types, strict=True)):
            size = math.prod(shape) * dtype.itemsize
            is_inside = arena is not None and position in order.wanted and at + size <= arena.nbytes
            if is_inside and size and arena is not None:
                arrays.append(np.frombuffer(arena[at : at + size], dtype).reshape(shape))
                at = aligned(at + size)
            else:
                arrays.append(np.empty(shape, dtype))
        return arrays

    def _placed(
        self, outputs: Sequence[Array], order: RunOrder, arena: memoryview, bound: BoundRun
    ) -> tuple[tuple[TensorAt, ...], SharedMemory | None]:
        """Puts the wanted outputs into the arena, or all of them into a memory of their own."""
        contents: list[tuple[TensorAt, memoryview | None]] = []
        at = aligned(order.results_at)
        base = np.frombuffer(arena, np.uint8).__array_interface__["data"][0] if arena.nbytes else 0
        for position in order.wanted:
            array = outputs[position]
            data: memoryview | None
            if array.dtype.hasobject:
                data = memoryview(encode_byte_strings(array))
            else:
                data = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
            size = data.nbytes
            if size and not array.dtype.hasobject and array.__array_interface__["data"][0] == base + at:
                data = None  # the device has written it there
            contents.append(
                (TensorAt(kind=self._kinds[position], shape=array.shape, offset=at, size=size), data)
            )
            at = aligned(at + size)
        if at <= aligned(arena.nbytes) and all(
            each.offset + each.size <= arena.nbytes for each, _ in contents
        ):
            for tensor, data in contents:
                if data is not None and tensor.size:
                    arena[tensor.offset : tensor.offset + tensor.size] = data
            tensors = tuple(tensor for tensor, _ in contents)
            is_in_place = all(data is None for _, data in contents)
            if is_in_place and self._runs.are_certain(_shapes(order.inputs), outputs):
                bound.placed = tensors
            return tensors, None
        return self._attached(contents, arena)

    @staticmethod
    def _attached(
        contents: Sequence[tuple[TensorAt, memoryview | None]], arena: memoryview
    ) -> tuple[tuple[TensorAt, ...], SharedMemory]:
        start = contents[0][0].offset
        last = contents[-1][0]
        memory = SharedMemory.create(max(1, last.offset + last.size - start), "neurald outputs")
        view = memory.view()
        tensors: list[TensorAt] = []
        for tensor, data in contents:
            at = tensor.offset - start
            source = arena[tensor.offset : tensor.offset + tensor.size] if data is None else data
            if tensor.size:
                view[at : at + tensor.size] = source
            tensors.append(TensorAt(kind=tensor.kind, shape=tensor.shape, offset=at, size=tensor.size))
        return tuple(tensors), memory


def _shapes(tensors: Sequence[TensorAt]) -> tuple[Shape, ...]:
    return tuple(each.shape for each in tensors)


def _key(order: RunOrder) -> tuple[Any, ...]:
    """Returns what is the same for orders that one bound execution runs."""
    return order.inputs, order.results_at, order.wanted, order.results_end
