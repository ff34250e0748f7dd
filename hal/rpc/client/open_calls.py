"""Functions that run a prepared model of a daemon on arrays of any shapes.

Inputs and outputs are in shared memory that grows, so that no memory is created or sent for new
shapes. The daemon says the shapes of the outputs in its reply, which is checked.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape
from neurald.hal.errors import BadData, Error
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import OperandType, byte_size, value_size
from neurald.hal.rpc.client.array_calls import (
    MAX_BYTES,
    ModelOnRings,
    Place,
    input_arguments,
    placed,
    total_bytes,
)
from neurald.hal.validation.request_rules import merge_dimensions

_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_Shapes: TypeAlias = tuple[tuple[int, ...], ...]

#: How often the memory of outputs grows in one call. The daemon says how much it needs.
_MAX_GROWTHS: Final = 2
#: The least memory of an output.
_MIN_BYTES: Final = 1 << 12
#: Maximum number of sets of shapes of which the requests are kept with the memory. A ring knows as
#: many requests.
_MAX_REQUESTS: Final = 64
_RUN = ExecuteOptions()


class _Call(Struct, eq=False):
    """A request for some shapes.

    Attributes:
        request: the request.
        inputs: the places of its inputs in memory.
        result: the last result, which has been checked.
        outputs: the places of the outputs for this result.
    """

    request: Request
    inputs: list[_Array]
    result: ExecutionResult | None = None
    outputs: Sequence[_Array] = ()


class _Frame:
    """Shared memory for one call at a time.

    Args:
        capacities: the memory of each output, in bytes.

    Attributes:
        inputs: the memory of the inputs.
        outputs: the memory of the outputs.
        capacities, offsets: the capacities and offsets of each output in it.
        calls: the calls by the shapes of the inputs.
    """

    __slots__ = ("calls", "capacities", "inputs", "offsets", "outputs")

    def __init__(self, capacities: Sequence[int]) -> None:
        self.inputs = SharedMemory.working(_MIN_BYTES)
        self.calls: dict[_Shapes, _Call] = {}
        self.resize_outputs(capacities)

    def resize_outputs(self, capacities: Sequence[int]) -> None:
        """Replaces the memory of the outputs."""
        *self.offsets, size_bytes = accumulate(capacities, initial=0)
        self.capacities = capacities
        self.outputs = SharedMemory.working(max(1, size_bytes))
        self.calls.clear()


class RemoteOpenFunction:
    """A function that runs a model on arrays of any shapes; see `RunsAnyShapes`. Thread-safe.

    Args:
        prepared_model: the prepared model to run.
        inputs: its inputs.
        outputs: its outputs.
    """

    def __init__(
        self, prepared_model: ModelOnRings, inputs: Sequence[Operand], outputs: Sequence[Operand]
    ) -> None:
        #: The daemon releases the model with the last reference to it.
        self._prepared_model = prepared_model
        self._rings = prepared_model.rings
        self._model = prepared_model.model
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        #: The sizes of the outputs; None for those that are open.
        self._sizes = [value_size(operand.type, operand.dimensions) for operand in outputs]
        self._free: list[_Frame] = []

    def __call__(self, *arrays: Any) -> list[_Array] | None:
        """Runs the model; see `ArrayFunction`."""
        if len(arrays) != len(self._inputs):
            return None
        for array, operand in zip(arrays, self._inputs, strict=True):
            if type(array) is not np.ndarray or array.dtype != operand.type.dtype or not array.size:
                return None
        try:
            frame = self._free.pop()
        except IndexError:
            frame = _Frame([_rounded(size_bytes or 1) for size_bytes in self._sizes])
        try:
            outputs = self._run(frame, tuple([array.shape for array in arrays]), arrays)
        except Error:
            return None  # the daemon may still write to the frame, which is dropped
        self._free.append(frame)
        return outputs

    def for_shapes(self, shapes: Sequence[tuple[int, ...]]) -> ArrayFunction:
        """Returns a function of arrays; see `CallsDirectly.create_array_function`."""
        expected = list(shapes)

        def run(*arrays: Any) -> list[_Array] | None:
            if [getattr(array, "shape", None) for array in arrays] != expected:
                return None
            return self(*arrays)

        return run

    def _run(self, frame: _Frame, shapes: _Shapes, arrays: Sequence[_Array]) -> list[_Array] | None:
        """Runs the model in the memory of a frame; returns None if it has to run in another way.

        Raises:
            Error: the execution failed, or the reply is not valid.
        """
        for _ in range(1 + _MAX_GROWTHS):
            call = frame.calls.get(shapes) or self._new_call(frame, shapes)
            if call is None:
                return None
            for array, target in zip(arrays, call.inputs, strict=True):
                target[...] = array
            result = self._rings.execute(self._model, call.request, _RUN, is_ongoing=True)
            if result is None:
                return None
            if result is call.result:
                return [output.copy() for output in call.outputs]
            needed = self._needed(result.output_shapes)
            if needed is None:
                return None
            if result.is_sufficient:
                outputs = self._places(frame, result.output_shapes, needed)
                if outputs is None:
                    return None
                call.result, call.outputs = result, outputs
                return [output.copy() for output in outputs]
            if not self._grow_outputs(frame, needed):
                return None
        return None

    def _new_call(self, frame: _Frame, shapes: _Shapes) -> _Call | None:
        """Returns the request for some shapes; None for wrong or too large ones."""
        try:
            for operand, shape in zip(self._inputs, shapes, strict=True):
                merge_dimensions(operand.dimensions, shape, "an input")
        except BadData:
            return None
        places = placed([(operand.type, shape) for operand, shape in zip(self._inputs, shapes, strict=True)])
        if places is None or total_bytes(places) + sum(frame.capacities) > MAX_BYTES:
            return None
        if total_bytes(places) > frame.inputs.size:
            frame.inputs = SharedMemory.working(_rounded(total_bytes(places)))
            frame.calls.clear()
        while len(frame.calls) >= _MAX_REQUESTS:
            del frame.calls[next(iter(frame.calls))]
        request = Request(
            inputs=input_arguments(self._inputs, places),
            outputs=tuple(
                # An output has all memory that there is, if its size is open.
                Argument(pool=1, offset=offset, length=size_bytes or capacity)
                for size_bytes, offset, capacity in zip(
                    self._sizes, frame.offsets, frame.capacities, strict=True
                )
            ),
            pools=(frame.inputs, frame.outputs),
        )
        content = np.frombuffer(frame.inputs.view(), np.uint8)
        call = frame.calls[shapes] = _Call(request, [place.of(content) for place in places])
        return call

    def _needed(self, shapes: Sequence[OutputShape]) -> list[int] | None:
        """Returns the sizes of outputs that the daemon has, which is not trusted, in bytes.

        Returns None if they are not known, or if there are not this many outputs.

        Raises:
            BadData: a shape is not one of the model's.
        """
        if len(shapes) != len(self._outputs):
            return None
        sizes = []
        for operand, shape in zip(self._outputs, shapes, strict=True):
            dimensions = shape.dimensions
            if dimensions is None or min(dimensions, default=1) < 0:
                return None
            merge_dimensions(operand.dimensions, dimensions, "an output")
            if 0 in dimensions and not (shape.sufficient and _may_be_empty(operand, dimensions)):
                return None
            sizes.append(byte_size(operand.type, dimensions))
        return sizes

    def _places(
        self, frame: _Frame, shapes: Sequence[OutputShape], sizes: Sequence[int]
    ) -> list[_Array] | None:
        """Returns the outputs in memory; None if they are larger than that."""
        if any(size > capacity for size, capacity in zip(sizes, frame.capacities, strict=True)):
            return None
        content = np.frombuffer(frame.outputs.view(), np.uint8)
        return [
            Place(
                dtype=operand.type.dtype, shape=shape.dimensions or (), offset=offset, size_bytes=size_bytes
            ).of(content)
            for operand, shape, offset, size_bytes in zip(
                self._outputs, shapes, frame.offsets, sizes, strict=True
            )
        ]

    def _grow_outputs(self, frame: _Frame, sizes: Sequence[int]) -> bool:
        """Gives a frame memory for outputs of these sizes; returns False if they are too large."""
        capacities = [
            max(capacity, _rounded(size)) for size, capacity in zip(sizes, frame.capacities, strict=True)
        ]
        if frame.inputs.size + sum(capacities) > MAX_BYTES:
            return False
        frame.resize_outputs(capacities)
        return True


def create_open_function(
    prepared_model: ModelOnRings, inputs: Sequence[Operand], outputs: Sequence[Operand]
) -> RemoteOpenFunction | None:
    """Creates a function for arrays of any shapes; see `RunsAnyShapes.create_open_function`.

    Args:
        prepared_model: the prepared model to run.
        inputs: its inputs.
        outputs: its outputs.

    Returns:
        The function; None if no shape is open, an argument consists of strings, or those of fixed
            shapes are too large.
    """
    operands = (*inputs, *outputs)
    if any(operand.type is OperandType.TENSOR_STRING for operand in operands):
        return None
    fixed = [value_size(operand.type, operand.dimensions) for operand in operands]
    if None not in fixed or sum(_rounded(size_bytes or 1) for size_bytes in fixed) > MAX_BYTES:
        return None
    return RemoteOpenFunction(prepared_model, inputs, outputs)


def _may_be_empty(operand: Operand, dimensions: Sequence[int]) -> bool:
    """Returns True if those lengths that are 0 are open in the operand."""
    declared = operand.dimensions
    return declared is None or not any(
        length for length, found in zip(declared, dimensions, strict=True) if found == 0
    )


def _rounded(size_bytes: int) -> int:
    """Rounds a size up, so that memory does not grow with each slightly larger value."""
    return max(_MIN_BYTES, 1 << (size_bytes - 1).bit_length())
