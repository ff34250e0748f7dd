"""Executes a loaded model with buffers of the sizes that its outputs need."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

import neurald as nd
from neurald.hal.errors import BadData, OutputInsufficientSize
from neurald.runtime.execution.binding.arrays import OutputShapes
from neurald.runtime.function.tensor_info import inputs_of, outputs_of

#: Number of sets of input shapes for which the shapes of outputs are remembered.
_KEPT: Final = 8
_MAX_GROWTHS: Final = 8
_MAX_OUTPUT_BYTES: Final = 1 << 30

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Shape: TypeAlias = tuple[int, ...]


class SizedRuns:
    """Executes a model with buffers of likely sizes, and with larger ones if necessary.

    Belongs to one thread.

    Args:
        compilation: the model.
        loop_timeout_s: how long each WHILE operation may take.

    Attributes:
        types: the types of the outputs' elements.
        are_fixed: whether inputs and outputs have the same shapes in all runs.
        has_strings: whether there are strings among inputs or outputs.
    """

    def __init__(self, compilation: nd.Compilation, loop_timeout_s: float) -> None:
        self._compilation = compilation
        self._loop_timeout_s = loop_timeout_s
        inputs, outputs = inputs_of(compilation.model), outputs_of(compilation.model)
        self.types = tuple(info.dtype for info in outputs)
        self.are_fixed = all(
            info.shape is not None and None not in info.shape for info in (*inputs, *outputs)
        )
        self.has_strings = any(info.dtype.hasobject for info in (*inputs, *outputs))
        self._output_shapes = OutputShapes(compilation.model)
        self._guessed: dict[tuple[Shape, ...], list[Shape]] = {}

    def compute(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model once; returns its outputs in their actual shapes.

        Raises:
            BadData: the inputs do not fit the model.
            Error: the execution failed.
        """
        execution, outputs = self.bind(inputs, self._empty, nd.Execution.compute)
        return self.actual(execution, outputs, tuple(each.shape for each in inputs))

    def bind(
        self,
        inputs: Sequence[Array],
        allocate: Callable[[Sequence[Shape]], list[Array]],
        compute: Callable[[nd.Execution], None],
    ) -> tuple[nd.Execution, list[Array]]:
        """Runs the model once; returns the execution, and the buffers that hold its outputs.

        Args:
            inputs: one for each input of the model.
            allocate: returns a buffer for each output, of these shapes.
            compute: computes an execution.

        Raises:
            BadData: the inputs do not fit the model, or the outputs are too large.
            Error: the execution failed.
        """
        shapes = self._likely_shapes(tuple(each.shape for each in inputs))
        for _ in range(_MAX_GROWTHS):
            # Empty outputs, too, are arrays, whose other lengths must not overflow.
            size = sum(
                math.prod(filter(None, shape)) * dtype.itemsize
                for shape, dtype in zip(shapes, self.types, strict=True)
            )
            if size > _MAX_OUTPUT_BYTES:
                raise BadData(
                    f"the outputs have the shapes {shapes}, which take {size} bytes; {_MAX_OUTPUT_BYTES} may be"
                )
            execution = nd.Execution(self._compilation, reusable=not self.has_strings)
            execution.set_loop_timeout(self._loop_timeout_s)
            for position, array in enumerate(inputs):
                execution.set_input(position, array)
            outputs = allocate(shapes)
            for position, array in enumerate(outputs):
                execution.set_output(position, array)
            try:
                compute(execution)
            except OutputInsufficientSize as error:
                if any(shape is None for shape in error.dimensions):
                    raise
                shapes = [tuple(shape or ()) for shape in error.dimensions]
                continue
            return execution, outputs
        raise BadData(f"the outputs did not fit their buffers in {_MAX_GROWTHS} runs")

    def actual(
        self, execution: nd.Execution, outputs: Sequence[Array], given: tuple[Shape, ...]
    ) -> list[Array]:
        """Returns the outputs of a run in the shapes that it gave them.

        Args:
            execution: the execution that has run.
            outputs: its buffers.
            given: the shapes of its inputs.
        """
        shapes = execution.output_shapes()
        self.guess(given, list(shapes))
        return [
            array.reshape(-1)[: math.prod(shape)].reshape(shape)
            for array, shape in zip(outputs, shapes, strict=True)
        ]

    def are_certain(self, given: tuple[Shape, ...], found: Sequence[Array]) -> bool:
        """Returns whether outputs always have the shapes that they have now, for the same inputs.

        Args:
            given: the shapes of the inputs.
            found: the outputs of a run.
        """
        if self.are_fixed:
            return True
        inferred = self._output_shapes(given, lambda _: None)
        return all(
            shape is not None and all(shape) and tuple(shape) == array.shape
            for shape, array in zip(inferred, found, strict=True)
        )

    def guess(self, given: tuple[Shape, ...], shapes: list[Shape]) -> None:
        """Remembers the shapes of outputs for inputs of certain shapes."""
        if len(self._guessed) >= _KEPT and given not in self._guessed:
            self._guessed.clear()
        self._guessed[given] = shapes

    def _likely_shapes(self, given: tuple[Shape, ...]) -> list[Shape]:
        """Returns the shapes of the outputs of an earlier run, or those from the inputs.

        Raises:
            BadData: the inputs do not fit the model.
        """
        found = self._guessed.get(given)
        if found is not None:
            return found
        inferred = self._output_shapes(given, lambda _: None)
        return [tuple(length or 1 for length in shape or ()) for shape in inferred]

    def _empty(self, shapes: Sequence[Shape]) -> list[Array]:
        return [np.empty(shape, dtype) for shape, dtype in zip(shapes, self.types, strict=True)]
