"""The shapes that a run of a compilation is expected to have, from what is known before it."""

from collections.abc import Sequence

from neurald.hal.execution.output_shapes import inferred_output_shapes
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.model import Model
from neurald.hal.model.types import Dimensions
from neurald.runtime.execution.binding.arrays import (
    SHAPE_CACHE_SIZE,
    InputShapes,
    OutputShapes,
    may_have_shape,
)
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.program.executor import SimpleExecutor


def shapes_of(inputs: Sequence[Array | None]) -> InputShapes:
    """Returns the shapes of the inputs of a run; None for those that are omitted."""
    return tuple([None if array is None else array.shape for array in inputs])


class ExpectedShapes:
    """Tells the shapes of outputs, and whether shapes of inputs occur again. Thread-safe.

    Attributes:
        has_open_inputs: whether the model leaves dimensions of its inputs open.
    """

    def __init__(self, model: Model) -> None:
        self.has_open_inputs = not all(operand.is_fully_specified for operand in model.input_operands)
        self._output_shapes = OutputShapes(model)
        #: Shapes of inputs of earlier runs, if shapes may vary.
        self._earlier: set[InputShapes] = set()
        #: The shapes of the outputs of the last run whose shapes were not known in advance.
        self._latest: Sequence[tuple[int, ...] | None] = (None,) * len(model.outputs)

    def of_outputs(self, compilation: CompiledModel, inputs: InputShapes) -> list[Dimensions]:
        """Returns the shapes of the outputs, as far as those of the inputs determine them.

        Args:
            compilation: the compilation of the model; its device may know more than the model says.
            inputs: the shapes of the inputs; None for those that are omitted.
        """

        def ask(inputs: InputShapes) -> Sequence[Dimensions] | None:
            return self._of_device(compilation, inputs)

        return list(self._output_shapes(inputs, ask))

    def completed(self, shapes: Sequence[Dimensions]) -> list[Dimensions]:
        """Returns shapes of outputs, with those of the last run in place of unknown ones."""
        return [
            found if found is not None and may_have_shape(shape, found) else shape
            for shape, found in zip(shapes, self._latest, strict=True)
        ]

    def note(self, shapes: Sequence[tuple[int, ...] | None]) -> None:
        """Notes the actual shapes of a run's outputs: another run often has as many results."""
        self._latest = shapes

    def may_repeat(self, inputs: InputShapes) -> bool:
        """Returns True if further runs with these shapes of inputs are likely.

        If shapes may vary, that is from their second run on.
        """
        if not self.has_open_inputs or inputs in self._earlier:
            return True
        if len(self._earlier) >= SHAPE_CACHE_SIZE:
            self._earlier.clear()
        self._earlier.add(inputs)
        return False

    def _of_device(self, compilation: CompiledModel, inputs: InputShapes) -> Sequence[Dimensions] | None:
        """Returns the shapes of the outputs if one device runs the whole model and knows them."""
        executor = compilation.executor
        if not self.has_open_inputs or not isinstance(executor, SimpleExecutor):
            return None
        found = inferred_output_shapes(compilation.recovery.step(executor.step).usable(), inputs)
        return None if found is None else found[: len(compilation.model.outputs)]
