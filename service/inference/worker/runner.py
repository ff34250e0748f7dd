"""Runs a loaded model for one lane, with inputs and outputs in the lane's arena and windows.

Clients may change and truncate a window at any time. So inputs there are only used in place by code
that tolerates it, like those of callers that are not trusted. If the model has no such code, its
outputs are left in the arena.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.buffers.staging import ByteCopy
from neurald.hal.errors import BadData, BadState, Cancelled, OutputInsufficientSize
from neurald.hal.execution.native_serving import NativeCall
from neurald.hal.lanes.byte_strings import encode_byte_strings
from neurald.hal.lanes.packets import (
    CUT,
    KEPT_ORDERS,
    Receipt,
    RunAnswer,
    RunOrder,
    TensorAt,
    aligned,
    kind_of,
)
from neurald.hal.memory.pool import SharedMemory, checked_range
from neurald.hal.wording import counted
from neurald.service.inference.mapping.guarded_copy import MappedRange
from neurald.service.inference.worker.loaded_model import LoadedModel
from neurald.service.inference.worker.sized_runs import Array, Shape

#: The windows of a lane by their numbers; those that could not be mapped are not there.
Windows = Mapping[int, MappedRange]


class BoundRun:
    """An execution whose inputs and outputs are bound to places in an arena."""

    def __init__(self, execution: nd.Execution, outputs: Sequence[Array]) -> None:
        self.execution = execution
        self.outputs = outputs
        #: Where the wanted outputs are, if they are there whatever the elements of inputs are.
        self.placed: tuple[TensorAt, ...] | None = None
        #: The copies that tell the caller which windows are cut.
        self.cut_notes: Sequence[ByteCopy] = ()

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

    def run(
        self, order: RunOrder, arena: memoryview, windows: Windows
    ) -> tuple[RunAnswer, SharedMemory | None]:
        """Runs the model once.

        Returns:
            The answer, and the memory of the outputs if they did not fit into the arena.

        Raises:
            BadData: a tensor is not in the arena, or does not fit the model.
            BadState: a tensor is in a window that could not be mapped, or that is not guarded.
            Error: the execution failed.
        """
        began = time.perf_counter_ns()
        expected = self._model.description.inputs
        if len(order.inputs) != len(expected):
            raise BadData(f"{counted(len(order.inputs), 'input')} given; the model has {len(expected)}")
        if any(not 0 <= each < len(self._kinds) for each in order.wanted):
            raise BadData(f"an output is wanted that the model has not; it has {len(self._kinds)}")
        if order.results and len(order.results) != len(order.wanted):
            raise BadData(f"{counted(len(order.results), 'result')} given; {len(order.wanted)} are wanted")
        cut_notes = _cut_notes(order, arena, windows)
        if order.results_end:
            arena = arena[: order.results_end]
        if not 0 <= order.results_at <= arena.nbytes:
            raise BadData(f"results are wanted at {order.results_at} of an arena of {arena.nbytes} bytes")
        # A first tier may have been replaced by code that tolerates it.
        is_left_alone = self._is_trusted and not cut_notes
        copies = not (is_left_alone or self._model.tolerates_changing_inputs)
        in_place = not copies and not self._runs.has_strings
        key = _key(order)
        bound = self._kept.get(key) if in_place else None
        read = time.perf_counter_ns()
        if bound is None or not self._repeated(bound, key):
            inputs = self._inputs_of(order, arena, windows, copies=copies)
            read = time.perf_counter_ns()
            bound = self._bound(inputs, order, arena if in_place else None, windows)
            bound.cut_notes = cut_notes
            if in_place:
                self._kept[key] = bound
                while len(self._kept) > KEPT_ORDERS:
                    self._kept.popitem(last=False)
        outputs = bound.outputs
        ran = time.perf_counter_ns()
        memory: SharedMemory | None = None
        tensors = bound.placed
        if tensors is None:
            if not self._runs.are_fixed:
                outputs = self._runs.actual(bound.execution, outputs, _shapes(order.inputs))
            tensors, memory = self._placed(outputs, order, arena, bound, windows)
        for target, source in bound.cut_notes:
            target[:] = source
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

    def _inputs_of(
        self, order: RunOrder, arena: memoryview, windows: Windows, *, copies: bool
    ) -> list[Array]:
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
                array = given.in_arena(_memory(given, arena, windows), owner)
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

    def _bound(
        self, inputs: Sequence[Array], order: RunOrder, arena: memoryview | None, windows: Windows
    ) -> BoundRun:
        """Runs the model with new buffers, with wanted outputs in place if they fit."""

        def allocate(shapes: Sequence[Shape]) -> list[Array]:
            return self._buffers(shapes, order, arena, windows)

        return BoundRun(*self._runs.bind(inputs, allocate, self._compute))

    def _buffers(
        self, shapes: Sequence[Shape], order: RunOrder, arena: memoryview | None, windows: Windows
    ) -> list[Array]:
        """Returns arrays for all outputs; those that are wanted are in place while they fit."""
        arrays: list[Array] = []
        results = dict(zip(order.wanted, order.results, strict=False))
        at = aligned(order.results_at)
        for position, (shape, dtype) in enumerate(zip(shapes, self._runs.types, strict=True)):
            result = None if arena is None else results.get(position)
            if result is not None and arena is not None:
                is_there = (result.kind, result.shape) == (self._kinds[position], tuple(shape))
                memory = _memory(result, arena, windows)
                arrays.append(result.in_arena(memory) if is_there else np.empty(shape, dtype))
                continue
            size = math.prod(shape) * dtype.itemsize
            is_inside = arena is not None and position in order.wanted and at + size <= arena.nbytes
            if is_inside and size and arena is not None:
                arrays.append(np.frombuffer(arena[at : at + size], dtype).reshape(shape))
                at = aligned(at + size)
            else:
                arrays.append(np.empty(shape, dtype))
        return arrays

    def _placed(
        self,
        outputs: Sequence[Array],
        order: RunOrder,
        arena: memoryview,
        bound: BoundRun,
        windows: Windows,
    ) -> tuple[tuple[TensorAt, ...], SharedMemory | None]:
        """Puts the wanted outputs into the arena, or all of them into a memory of their own.

        They stay where the order says if the model has written all of them there.
        """
        if order.results and self._are_there(outputs, order, arena, windows):
            if self._runs.are_certain(_shapes(order.inputs), outputs):
                bound.placed = order.results
            return order.results, None
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

    def _are_there(
        self, outputs: Sequence[Array], order: RunOrder, arena: memoryview, windows: Windows
    ) -> bool:
        """Returns whether all wanted outputs are where the order says."""
        for position, result in zip(order.wanted, order.results, strict=True):
            array = outputs[position]
            place = result.in_arena(_memory(result, arena, windows))
            if (result.kind, result.shape) != (self._kinds[position], array.shape):
                return False
            if array.__array_interface__["data"][0] != place.__array_interface__["data"][0]:
                return False
        return True

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


def _memory(tensor: TensorAt, arena: memoryview, windows: Windows) -> memoryview:
    """Returns the memory in which a tensor is.

    Raises:
        BadState: it is in a window that could not be mapped.
    """
    return _window(tensor.window, windows).memory if tensor.window else arena


def _window(number: int, windows: Windows) -> MappedRange:
    found = windows.get(number)
    if found is None:
        raise BadState(f"the window {number} is not mapped")
    return found


def _cut_notes(order: RunOrder, arena: memoryview, windows: Windows) -> list[ByteCopy]:
    """Returns the copies that tell the caller which windows of an order are cut.

    Raises:
        BadState: a window could not be mapped, or is not guarded any more.
        BadData: they do not fit into the arena.
    """
    notes: list[ByteCopy] = []
    at = order.results_end
    for number in order.windows:
        window = _window(number, windows)
        if not window.is_guarded:
            raise BadState("another handler of SIGBUS is installed")
        checked_range(at, CUT.size, arena.nbytes, "a note in an arena")
        notes.append((np.frombuffer(arena[at : at + CUT.size], np.uint8), window.cut_note))
        at += CUT.size
    return notes


def _key(order: RunOrder) -> tuple[Any, ...]:
    """Returns what is the same for orders that one bound execution runs."""
    return order.inputs, order.results_at, order.wanted, order.results_end, order.results
