"""Functions that run a prepared model of a daemon on arrays, with little work in Python.

The inputs are copied to shared memory. Large outputs are not copied: the arrays that a function
returns are in shared memory, which is used again once none of them is referenced any more.
"""

import weakref
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from msgspec import Struct

from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.errors import BadData, Error
from neurald.hal.memory.alignment import align
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import Dimensions, OperandType, value_size
from neurald.hal.process.fork import notice_fork
from neurald.hal.rpc.client.rings.ring import RemoteModel
from neurald.hal.rpc.client.rings.ring_pool import RingPool
from neurald.hal.validation.request_rules import merge_dimensions

_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

#: Inputs and outputs of more bytes are not kept in shared memory between calls.
MAX_BYTES: Final = 32 << 20
#: Smaller outputs are copied.
_MIN_LENT_BYTES: Final = 1 << 16
#: How many calls' outputs may be in shared memory at the same time. Those of further calls are
#: copied, since each memory takes descriptors here and in the daemon.
_MAX_LENT: Final = 4
_RUN = ExecuteOptions()


class ModelOnRings(Protocol):
    """A prepared model in a daemon on this host; it stays prepared while it is referenced."""

    @property
    def rings(self) -> RingPool:
        """Run its executions."""
        ...

    @property
    def model(self) -> RemoteModel:
        """The prepared model, as rings run it."""
        ...


class Place(Struct, frozen=True, kw_only=True):
    """The place of an input or output in its memory."""

    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    offset: int
    size_bytes: int

    def of(self, content: _Array) -> _Array:
        """Returns the array at this place of a memory's bytes."""
        return content[self.offset : self.offset + self.size_bytes].view(self.dtype).reshape(self.shape)


class _Frame:
    """Shared memory for one call at a time, and the request that uses it.

    Attributes:
        guard: refers to the content of the outputs while it is lent.
    """

    __slots__ = ("__weakref__", "guard", "inputs", "output_memory", "request")

    def __init__(self, request: Request, inputs: list[_Array], output_memory: SharedMemory) -> None:
        self.request = request
        self.inputs = inputs
        self.output_memory = output_memory
        self.guard: weakref.ref[_Array] | None = None


class RemoteArrayFunction:
    """Implements `neurald.hal.execution.direct_calls.ArrayFunction`. Thread-safe.

    Args:
        prepared_model: the prepared model to run.
        inputs: the places of the inputs.
        outputs: the places of the outputs.
        arguments: a request for these places, with inputs in pool 0 and outputs in pool 1.
    """

    def __init__(
        self,
        prepared_model: ModelOnRings,
        inputs: Sequence[Place],
        outputs: Sequence[Place],
        arguments: Request,
    ) -> None:
        #: The daemon releases the model with the last reference to it.
        self._prepared_model = prepared_model
        self._rings = prepared_model.rings
        self._model = prepared_model.model
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._arguments = arguments
        self._is_lending = total_bytes(outputs) >= _MIN_LENT_BYTES
        self._free: list[_Frame] = []
        self._lent: set[_Frame] = set()
        self._validated: ExecutionResult | None = None

    def __call__(self, *arrays: Any) -> list[_Array] | None:
        """Runs the model; see `ArrayFunction`."""
        if len(arrays) != len(self._inputs):
            return None
        for array, place in zip(arrays, self._inputs, strict=True):
            if type(array) is not np.ndarray or array.dtype != place.dtype or array.shape != place.shape:
                return None
        notice_fork()
        try:
            frame = self._take()
            for array, target in zip(arrays, frame.inputs, strict=True):
                target[...] = array
            result = self._rings.execute(self._model, frame.request, _RUN)
        except Error:
            return None  # the daemon may still write to the frame, which is dropped
        if result is None or not self._is_valid(result):
            self._free.append(frame)
            return None
        content = np.frombuffer(frame.output_memory.view(), np.uint8)
        outputs = [place.of(content) for place in self._outputs]
        if self._is_lending and len(self._lent) < _MAX_LENT:
            _lend(frame, content, self._free, self._lent)
            return outputs
        copies = [output.copy() for output in outputs]
        self._free.append(frame)
        return copies

    def _is_valid(self, result: ExecutionResult) -> bool:
        if result is self._validated:
            return True
        if not result.is_sufficient or [shape.dimensions for shape in result.output_shapes] != [
            place.shape for place in self._outputs
        ]:
            return False
        self._validated = result
        return True

    def _take(self) -> _Frame:
        try:
            return self._free.pop()
        except IndexError:
            pass
        inputs, outputs = (
            SharedMemory.working(max(1, total_bytes(places))) for places in (self._inputs, self._outputs)
        )
        arguments = self._arguments
        content = np.frombuffer(inputs.view(), np.uint8)
        return _Frame(
            Request(inputs=arguments.inputs, outputs=arguments.outputs, pools=(inputs, outputs)),
            [place.of(content) for place in self._inputs],
            outputs,
        )


def _lend(frame: _Frame, content: _Array, free: list[_Frame], lent: set[_Frame]) -> None:
    """Keeps a frame from being used while anything refers to the content of its outputs."""

    # Refers neither to the function nor, after the call, from a free frame to the list.
    def returned(_: object) -> None:
        frame.guard = None
        lent.discard(frame)
        free.append(frame)

    frame.guard = weakref.ref(content, returned)
    lent.add(frame)


def create_array_function(
    prepared_model: ModelOnRings,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    shapes: Sequence[tuple[int, ...]],
) -> RemoteArrayFunction | None:
    """Creates a function for input arrays of given shapes; see `CallsDirectly`.

    Args:
        prepared_model: the prepared model to run.
        inputs: its inputs.
        outputs: its outputs.
        shapes: the shapes of the input arrays.

    Returns:
        The function; None if a shape is open or not that of its input, an argument consists of
            strings, or the arguments are too large.
    """
    try:
        for operand, shape in zip(inputs, shapes, strict=True):
            merge_dimensions(operand.dimensions, shape, "an input")
    except BadData:
        return None
    input_places = placed([(operand.type, shape) for operand, shape in zip(inputs, shapes, strict=True)])
    output_places = placed([(operand.type, operand.dimensions) for operand in outputs])
    if input_places is None or output_places is None:
        return None
    if total_bytes(input_places) + total_bytes(output_places) > MAX_BYTES:
        return None
    arguments = Request(
        inputs=input_arguments(inputs, input_places),
        outputs=tuple(
            Argument(pool=1, offset=place.offset, length=place.size_bytes) for place in output_places
        ),
        pools=(),
    )
    return RemoteArrayFunction(prepared_model, input_places, output_places, arguments)


def input_arguments(inputs: Sequence[Operand], places: Sequence[Place]) -> tuple[Argument, ...]:
    """Returns the arguments for inputs that are at these places in the first pool."""
    return tuple(
        Argument(
            pool=0,
            offset=place.offset,
            length=place.size_bytes,
            dimensions=place.shape if value_size(operand.type, operand.dimensions) is None else None,
        )
        for operand, place in zip(inputs, places, strict=True)
    )


def placed(values: Sequence[tuple[OperandType, Dimensions]]) -> list[Place] | None:
    """Places values one after the other; returns None if the size of one is not known."""
    places: list[Place] = []
    offset = 0
    for operand_type, dimensions in values:
        size_bytes = value_size(operand_type, dimensions)
        if size_bytes is None or dimensions is None:
            return None
        places.append(Place(dtype=operand_type.dtype, shape=dimensions, offset=offset, size_bytes=size_bytes))
        offset += align(size_bytes)
    return places


def total_bytes(places: Sequence[Place]) -> int:
    """Returns the size of memory for values at these places, one after the other."""
    return sum(align(place.size_bytes) for place in places)
