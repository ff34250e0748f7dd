"""The arrays that an application gives for the inputs of a model."""

from collections.abc import Sequence
from typing import Any

from neurald.hal.errors import BadData, WrongType
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.model import Model
from neurald.hal.wording import counted
from neurald.runtime.execution.binding.arrays import contiguous, input_label


class GivenInputs:
    """Checks and converts the arrays that are given for the inputs of a model. Thread-safe."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._types = tuple([operand.type for operand in model.input_operands])
        #: The inputs that cannot be omitted; None before one is omitted.
        self._required: frozenset[int] | None = None

    def converted(self, arrays: Sequence[Any]) -> list[Array | None]:
        """Returns the inputs as arrays of their types, in order; None for those that are omitted.

        Raises:
            BadData: their number or a type is wrong.
            WrongType: an input is omitted that the model needs.
        """
        types = self._types
        if len(arrays) != len(types):
            names = ", ".join(repr(name) for name in self._model.input_names if name)
            raise BadData(
                f"{counted(len(arrays), 'input')} given; the model has {len(types)}{names and ': '}{names}"
            )
        for position, array in enumerate(arrays):
            if array is None:
                self._require_omissible(position)
        return [
            None if array is None else contiguous(array, self._model, position, types[position])
            for position, array in enumerate(arrays)
        ]

    def _require_omissible(self, position: int) -> None:
        """Checks that an execution may omit an input.

        Raises:
            WrongType: the input cannot be omitted.
        """
        if self._required is None:
            from neurald.hal.validation.shape_inference import required_inputs  # slow to import

            self._required = required_inputs(self._model.main)
        if self._model.inputs[position] in self._required:
            raise WrongType(f"{input_label(self._model, position)} is None; an array is expected")
