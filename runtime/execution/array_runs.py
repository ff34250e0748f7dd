"""Runs a compilation on arrays by functions of its device, which do all work in native code.

The first runs of a function are timed, since real runs refine the costs of devices.
"""

import math
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from neurald.hal.execution.direct_calls import ArrayFunction
from neurald.hal.lazy_numpy import np
from neurald.hal.memory.pool import HostMemory
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.program.executor import SimpleExecutor
from neurald.runtime.execution.variables.state import Array
from neurald.runtime.execution.variables.variables_in_place import VariablesInPlace, may_replace_in_place

_Shapes: TypeAlias = tuple[tuple[int, ...], ...]

#: Number of sets of input shapes for which a function is kept.
_CACHE_SIZE: Final = 8
#: How many runs of a function are timed, if the shortest of the first ones takes so long that its
#: time is not mostly that of the call.
_TIMED_RUNS: Final = 20
_FIRST_RUNS: Final = 4
_TELLING_S: Final = 150e-6
#: After this many runs in a row on the same shapes by a function for all shapes, these get a
#: function of their own. It is a little faster, and takes as long to make as dozens of runs of a
#: small model.
_REPEATED_RUNS: Final = 40


class ArrayRuns:
    """The functions of a compilation, one for each set of input shapes. Thread-safe.

    Attributes:
        latest: the function for the shapes of the latest run, or for all shapes that have none, if
            there is one. It returns None for all other arrays.
    """

    def __init__(self) -> None:
        self.latest: ArrayFunction | None = None
        self._functions: dict[_Shapes, ArrayFunction] = {}
        self._open: _OpenFunction | None = None

    def run(self, compilation: CompiledModel, inputs: Sequence[Array | None]) -> list[Array] | None:
        """Runs the model on arrays of the operands' types.

        Args:
            compilation: the compilation.
            inputs: an array for each input; None for an omitted input.

        Returns:
            The outputs; None if there is no function for these arrays, or if the run failed.
        """
        outputs = self._run_open(compilation, inputs)
        if outputs is not None:
            return outputs
        function = self.prepare(compilation, inputs)
        if function is None:
            return None
        outputs = run_on(compilation, function, inputs)
        if outputs is None:
            self._forget(function)
        return outputs

    def _run_open(self, compilation: CompiledModel, inputs: Sequence[Array | None]) -> list[Array] | None:
        """Runs the model by the function for all shapes, unless one for these shapes pays."""
        function, self._open = self._open, None
        if function is None:
            function = self._opened(compilation)
        outputs = None if function is None else run_on(compilation, function, inputs)
        if outputs is not None:
            # Not after a failure: a prepared model whose driver died is replaced by another.
            self._open = self.latest = function
        return outputs

    def _opened(self, compilation: CompiledModel) -> "_OpenFunction | None":
        """Creates the function for all shapes, and times its first runs; None if there is none."""
        executor, function = compilation.executor, _open_function(compilation)
        if function is None or not isinstance(executor, SimpleExecutor):
            return None
        opened = _OpenFunction(function, self._functions)
        reference = weakref.ref(opened)

        def replace(_: ArrayFunction) -> None:
            found = reference()
            if found is not None:
                found.function = function

        opened.function = _TimedFunction(
            function, compilation.recovery.step(executor.step).note_time, replace
        )
        return opened

    def _forget(self, function: ArrayFunction) -> None:
        """Drops a function that failed: a prepared model whose driver died is replaced."""
        for shapes, known in tuple(self._functions.items()):
            if known is function:
                self._functions.pop(shapes, None)

    def prepare(self, compilation: CompiledModel, inputs: Sequence[Array | None]) -> ArrayFunction | None:
        """Returns the function for arrays of these shapes, and creates it if necessary; see `run`.

        A device may have a function only after it has run the model on such arrays.
        """
        shapes = tuple([array.shape for array in inputs if array is not None])
        if len(shapes) < len(inputs):
            return None
        function = self._functions.get(shapes)
        if function is None:
            untimed = _function(compilation, shapes)
            if untimed is None:
                return None
            if len(self._functions) >= _CACHE_SIZE:
                self._functions.clear()
            function = self._functions[shapes] = self._timed(compilation, shapes, untimed)
        self.latest = function
        return function

    def _timed(self, compilation: CompiledModel, shapes: _Shapes, function: ArrayFunction) -> ArrayFunction:
        """Returns a function that times its first runs, and then has itself replaced."""
        executor = compilation.executor
        if not isinstance(executor, SimpleExecutor):
            return function

        # Not a strong reference, so that all is released with the last reference to the
        # compilation.
        reference = weakref.ref(self)

        def replace(timed: ArrayFunction) -> None:
            runs = reference()
            if runs is None:
                return
            if runs._functions.get(shapes) is timed:
                runs._functions[shapes] = function
            if runs.latest is timed:
                runs.latest = function

        return _TimedFunction(function, compilation.recovery.step(executor.step).note_time, replace)


class _OpenFunction:
    """A function for all shapes, which returns None for those with one of their own.

    Args:
        function: the function of the device.
        functions: those for single sets of shapes.

    Attributes:
        function: what runs the model.
    """

    def __init__(self, function: ArrayFunction, functions: Mapping[_Shapes, ArrayFunction]) -> None:
        self.function = function
        self._functions = functions
        self._latest: _Shapes = ()
        self._runs = 0

    def __call__(self, *arrays: Array | None) -> list[Array] | None:
        # Callers may give any objects in place of arrays.
        shapes = tuple([array.shape for array in arrays if isinstance(array, np.ndarray)])
        if len(shapes) < len(arrays) or shapes in self._functions:
            return None
        # Races between threads only count some runs more or less.
        if shapes != self._latest:
            self._latest, self._runs = shapes, 0
        elif self._runs >= _REPEATED_RUNS:
            return None
        outputs = self.function(*arrays)
        if outputs is not None:
            self._runs += 1
        return outputs


class _TimedFunction:
    """A function whose first runs are timed. Races between threads only time some runs more."""

    def __init__(
        self,
        function: ArrayFunction,
        note: Callable[[float], None],
        replace: Callable[[ArrayFunction], None],
    ) -> None:
        self._function = function
        self._note = note
        self._replace = replace
        self._runs = 0
        self._shortest_s = math.inf

    def __call__(self, *arrays: Array | None) -> list[Array] | None:
        begun = time.perf_counter()
        outputs = self._function(*arrays)
        seconds = time.perf_counter() - begun
        if outputs is None:
            return None
        self._runs += 1
        self._shortest_s = min(self._shortest_s, seconds)
        is_telling = self._runs < _FIRST_RUNS or self._shortest_s >= _TELLING_S
        if is_telling:
            self._note(seconds)
        if not is_telling or self._runs >= _TIMED_RUNS:
            self._replace(self)
        return outputs


def run_on(
    compilation: CompiledModel, function: ArrayFunction, inputs: Sequence[Array | None]
) -> list[Array] | None:
    """Runs a compilation by one of its functions; traces replace this one."""
    del compilation
    return function(*inputs)


def _open_function(compilation: CompiledModel) -> ArrayFunction | None:
    """Creates a function of the device that runs the whole model on any shapes, if possible."""
    model, executor = compilation.model, compilation.executor
    if not isinstance(executor, SimpleExecutor) or model.state:
        return None
    if all(operand.is_fully_specified for operand in model.input_operands):
        return None
    return compilation.recovery.step(executor.step).create_open_function()


def _function(compilation: CompiledModel, shapes: _Shapes) -> ArrayFunction | None:
    """Creates a function of the device that runs the whole model, if that is possible."""
    model, executor = compilation.model, compilation.executor
    if not isinstance(executor, SimpleExecutor):
        return None
    create = compilation.recovery.step(executor.step).create_array_function
    variables = [operand.type for operand in model.outline.input_operands[len(model.inputs) :]]
    if not variables:
        return create(shapes, ())
    if not may_replace_in_place(variables):
        return None

    def create_in_place(memories: Sequence[HostMemory]) -> ArrayFunction | None:
        return create(shapes, memories)

    in_place = VariablesInPlace(compilation.state, create_in_place)
    return in_place.run if in_place.is_possible() else None
