"""A model that is compiled in parts, between which operations run on references."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from neurald.drivers.compiler.ir.string_references import is_string
from neurald.drivers.cpu.parts.late_segment import LateSegment
from neurald.drivers.cpu.parts.native_segment import NativeSegment
from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import Error, OpFailed
from neurald.hal.execution.array_model import ExecutionLimits, input_arrays, repeated_input_arrays
from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.execution.reference_graph import ExecutionState
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Request
from neurald.hal.operations.machinery.call import Array
from neurald.hal.sync.cancellation import Cancellation

_LOG: Final = logging.getLogger(__name__)

#: A run that may be repeated without the means to stop it takes at most this long, and the first
#: one, which also warms caches up, this long.
_MAX_SHORT_NS, _MAX_FIRST_NS = 200_000, 5_000_000


#: References to an array of a list that is only there: that of the list, and an argument.
_ONLY_THERE = 2


def _own(results: list[Array]) -> None:
    """Copies results that are inputs, constants, variables or parts of others: mostly small."""
    for position in range(len(results)):
        is_shared = results[position].base is not None or sys.getrefcount(results[position]) > _ONLY_THERE
        if is_shared:
            results[position] = results[position].copy()


class PartlyCompiledModel(ReferenceModel):
    """Implements `neurald.hal.device.PreparedModel`; see `ReferenceModel`."""

    @property
    def compiled_operations(self) -> frozenset[int]:
        """The operations of the main graph that are compiled for all executions."""
        segments = (each for each in self._main.segments if not isinstance(each, LateSegment))
        return frozenset(position for segment in segments for position in segment.operations)

    def create_short_execution(self, request: Request) -> Callable[[], bool] | None:
        """See `CallsDirectly.create_short_execution`."""
        whole = self._whole()
        if whole is None:
            return self._short_in_parts(request)
        function = whole.short_function()
        outputs = None if function is None else self.output_arrays(request)
        if function is None or outputs is None:
            return None
        given, targets = input_arrays(self._model, request, in_place=True), outputs.targets

        def run() -> bool:
            results = function(*given)
            if results is None:
                return False
            # The shapes of a compiled step are fixed.
            for target, result in zip(targets, results):  # noqa: B905 - it takes a third of the time
                target[...] = result
            return True

        return run

    def _short_in_parts(self, request: Request) -> Callable[[], bool] | None:
        """Returns a function that runs a request, of which no part takes long, without limits."""
        outputs = self.output_arrays(request)
        if outputs is None or self._referenced or self._main.is_random:
            return None
        inputs, limits = repeated_input_arrays(self._model, request), ExecutionLimits(ExecuteOptions())
        if self.latest_ns > _MAX_FIRST_NS:
            return None
        try:
            if self._takes_long(inputs(), limits):
                return None
        except Exception:
            # The inputs may have changed since the execution of the request.
            _LOG.debug("a request cannot be repeated as a short one", exc_info=True)
            return None

        def run() -> bool:
            try:
                return outputs.write(self.results(inputs(), limits))
            except Exception:
                # The execution of a request raises the error.
                _LOG.debug("a short execution failed", exc_info=True)
                return False

        return run

    def _takes_long(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> bool:
        begun_ns = time.perf_counter_ns()
        self.results(inputs, limits)
        return time.perf_counter_ns() - begun_ns > _MAX_SHORT_NS

    def create_reusable_execution(self, request: Request) -> Callable[[Cancellation], None] | None:
        """See `ReusesExecutions.create_reusable_execution`."""
        whole = self._whole()
        outputs = None if whole is None else self.output_arrays(request)
        if whole is None or outputs is None:
            return super().create_reusable_execution(request)
        given = input_arrays(self._model, request, in_place=True)
        function = whole.cancellable_function([None if each is None else each.shape for each in given])
        if function is None:
            return super().create_reusable_execution(request)

        def run(cancellation: Cancellation) -> None:
            results = function(given, cancellation)
            if results is None or not outputs.write(results):
                cancellation.require_not_cancelled("in a compiled step")
                raise OpFailed("the compiled step did not finish")

        return run

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """See `CallsDirectly.create_array_function`.

        The function spares binding the arguments of a request. It returns None for models with
        variables, and for arrays that are not stored as operands are.
        """
        graph = self._main.graph
        if variables or len(shapes) != len(graph.inputs):
            return None
        whole = self._whole()
        if whole is not None:
            function = whole.array_function(shapes)
            if function is not None:
                return function
        expected = [
            (graph.operands[index].type.dtype, shape)
            for index, shape in zip(graph.inputs, shapes, strict=True)
        ]
        options = ExecuteOptions()

        def run(*arrays: Array) -> list[Array] | None:
            if not stored_like(arrays, expected):
                return None
            inputs = []
            for array in arrays:
                view = array.view()
                view.flags.writeable = False
                inputs.append(view)
            try:
                # The arrays of a segment are new, so that they need not be copied.
                found = None if whole is None else whole.run(inputs, options)
                if found is not None:
                    return [result for result, _ in found]
                results = self._main.run(inputs, ExecutionState(self._referenced, ExecutionLimits(options)))
            except (Error, MemoryError):
                # The execution of a request raises the error.
                return None
            _own(results)
            return results

        return run

    def _whole(self) -> NativeSegment | None:
        """Returns the segment with all operations, if there is one."""
        graph, steps = self._main.graph, self._main.steps
        if len(steps) != 1 or not isinstance(steps[0], NativeSegment):
            return None
        is_whole = (steps[0].inputs, steps[0].outputs) == (graph.inputs, graph.outputs)
        return steps[0] if is_whole else None


def has_string_ports(model: Model) -> bool:
    """Returns True if an input or output has strings.

    Compiled steps read the objects of arrays; a `PartlyCompiledModel` converts those of requests.
    """
    main = model.main
    return any(is_string(main.operands[index].type) for index in (*main.inputs, *main.outputs))


def stored_like(
    arrays: Sequence[object], expected: Sequence[tuple["np.dtype[Any]", tuple[int, ...]]]
) -> bool:
    """Returns True if arrays are stored as operands of these types and shapes are."""
    return len(arrays) == len(expected) and all(
        type(array) is np.ndarray
        and array.dtype == dtype
        and array.shape == shape
        and array.flags.c_contiguous
        and (dtype.kind != "O" or _has_strings(array))
        for array, (dtype, shape) in zip(arrays, expected, strict=True)
    )


def _has_strings(array: Array) -> bool:
    return set(map(type, array.reshape(-1).tolist())) <= {bytes}
