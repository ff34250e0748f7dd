"""Arrays as inputs and outputs of runs: conversion, and shapes of outputs."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from neurald.hal.api_arguments import read_array, shown
from neurald.hal.errors import BadData, WrongType
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.elements import as_elements
from neurald.hal.model.masked_elements import require_unmasked
from neurald.hal.model.model import Model
from neurald.hal.model.types import Dimensions, OperandType

#: Number of input shape combinations whose output shapes are cached.
SHAPE_CACHE_SIZE = 256


def may_have_shape(declared: Dimensions, shape: tuple[int, ...]) -> bool:
    """Returns True if a shape that is not fully known may be this one."""
    if declared is None:
        return True
    return (
        0 in declared
        and len(declared) == len(shape)
        and all(length in (0, found) for length, found in zip(declared, shape, strict=True))
    )


#: The shapes of all inputs of a model; None for omitted ones.
InputShapes: TypeAlias = tuple[tuple[int, ...] | None, ...]
_OutputShapes: TypeAlias = tuple[Dimensions, ...]


class OutputShapes:
    """Infers the shapes of a model's outputs from those of its inputs, where possible."""

    __slots__ = ("_known", "_model")

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: dict[InputShapes, _OutputShapes] = {}

    def __call__(
        self, inputs: InputShapes, ask: Callable[[InputShapes], Sequence[Dimensions] | None]
    ) -> _OutputShapes:
        """Returns the shapes of the outputs.

        Args:
            inputs: shapes of the inputs; None for omitted ones.
            ask: returns the shapes if a device knows them.
        """
        found = self._known.get(inputs)
        if found is None:
            if len(self._known) >= SHAPE_CACHE_SIZE:
                self._known.clear()
            asked = ask(inputs)
            found = self._known[inputs] = self._infer(inputs) if asked is None else tuple(asked)
        return found

    def _infer(self, inputs: InputShapes) -> _OutputShapes:
        model = self._model
        declared, results = model.input_operands, model.output_operands
        are_known = all(operand.is_fully_specified for operand in (*declared, *results))
        if are_known and inputs == tuple([operand.dimensions for operand in declared]):
            return tuple([operand.dimensions for operand in results])
        from neurald.hal.validation.shape_inference import bind_operations, infer_shapes, merge

        graph = model.main
        for position, (operand, shape) in enumerate(zip(declared, inputs, strict=True)):
            if shape is not None:
                merge(operand.dimensions, shape, input_label(model, position))
        given = {index: shape for index, shape in zip(model.inputs, inputs, strict=True) if shape is not None}
        shapes = infer_shapes(model, graph, bind_operations(graph), given)
        return tuple([shapes.get(index, graph.operands[index].dimensions) for index in model.outputs])


def input_label(model: Model, position: int) -> str:
    """Returns how messages refer to an input of a model: by position, and by name if it has one."""
    return _label("input", model.input_names, position)


def output_label(model: Model, position: int) -> str:
    """Returns how messages refer to an output of a model; see `input_label`."""
    return _label("output", model.output_names, position)


def _label(what: str, names: Sequence[str], position: int) -> str:
    name = names[position] if names else ""
    # A model that was built by hand may have the generated name, which says nothing more.
    return f"{what} {position} ({name!r})" if name and name != f"{what}_{position}" else f"{what} {position}"


def contiguous(value: Any, model: Model, position: int, operand_type: OperandType) -> Array:
    """Converts the value of an input of a model to a C-contiguous array.

    A value without a dtype gets that of the operand's type.
    """
    dtype = operand_type.dtype
    try:
        array = read_array(value, None if isinstance(value, np.ndarray | np.generic) else dtype)
    except TypeError:
        label = input_label(model, position)
        raise WrongType(f"{label} is {shown(value)}; an array of {dtype} is expected") from None
    except (ValueError, OverflowError) as error:
        raise BadData(f"{input_label(model, position)} cannot be stored as {dtype}: {error}") from None
    if array is not value:
        require_unmasked(value, input_label(model, position))
    return array if array.dtype is dtype else as_elements(array, operand_type)
