"""Input shapes of models with unspecified dimensions."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from logging import Logger
from typing import TYPE_CHECKING, TypeVar

from neurald.drivers.compiler.frontend.variants.kept_variants import Shape
from neurald.hal.errors import BadData, Error
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.records import replace

if TYPE_CHECKING:
    from neurald.drivers.compiler.ir.extents.scope import ExtentScope

# The functions that compile import the compiler themselves, since a start from the cache needs
# none.

_Compiled = TypeVar("_Compiled")

#: Shortest length of an open dimension in examples.
USUAL_LENGTH = 64
#: Largest number of which lengths in examples are multiples.
_MAX_FACTOR = 1024
#: Lengths of shorter examples, the first ones for up to that many dimensions of different lengths.
_SHORTER = ((31, 29, 23, 19), (13, 11, 7, 5))
#: Lengths assumed for unspecified dimensions when deciding which operations are supported. Windows
#: and slices may need a minimum.
_ASSUMED_LENGTHS = (1, 8, 64, 256)


def is_specified(model: Model) -> bool:
    """Returns True if the shapes of all inputs are known before execution."""
    return all(operand.is_fully_specified for operand in model.outline.input_operands)


def with_assumed_shapes(model: Model) -> Model:
    """Returns the model with unspecified input dimensions set to a length, where the rank is known.

    The length is 1 if all operations then have results with elements, or else a greater one. The
    model is returned as it is if the operations allow no length.
    """
    from neurald.hal.validation.shape_inference import declared_shape

    main = model.main
    unspecified = [
        (index, operand.dimensions)
        for index in main.inputs
        if declared_shape(operand := main.operands[index]) is None and operand.dimensions is not None
    ]
    found = None
    for assumed in _ASSUMED_LENGTHS:
        shapes = {index: tuple(length or assumed for length in each) for index, each in unspecified}
        try:
            inferred = _inferred(model, shapes)
        except BadData:
            continue
        # Constants may be empty whatever the length is.
        has_elements = all(
            all(shape) or main.operands[index].lifetime.is_constant for index, shape in inferred.items()
        )
        if found is None or has_elements:
            found = inferred
        if has_elements:
            break
    return model if found is None else _with_dimensions(model, found)


def with_shapes(model: Model, shapes: Mapping[int, Shape]) -> Model:
    """Returns the model with the dimensions inferred from input shapes filled in.

    Args:
        model: valid.
        shapes: the input shapes, by operand.

    Raises:
        BadData: the shapes are inconsistent, or contradict what the model declares.
    """
    return _with_dimensions(model, _inferred(model, shapes))


def _inferred(model: Model, shapes: Mapping[int, Shape]) -> dict[int, Shape]:
    from neurald.hal.validation.shape_inference import bind_operations, infer_shapes

    return infer_shapes(model, model.main, bind_operations(model.main), shapes)


def _with_dimensions(model: Model, shapes: Mapping[int, Shape]) -> Model:
    """Returns the model with these shapes of operands that are not specified."""
    main = model.main
    operands = tuple(
        operand
        if operand.is_fully_specified or index not in shapes
        else replace(operand, dimensions=shapes[index])
        for index, operand in enumerate(main.operands)
    )
    return replace(model, main=replace(main, operands=operands))


def open_shapes(model: Model, shapes: Mapping[int, Shape]) -> "tuple[ExtentScope, dict[int, Shape]]":
    """Returns input shapes with extents for the dimensions that the model leaves open.

    Dimensions at the same position of several inputs have the same length if they have it here.
    Lengths of 0 and 1 are not open.

    Args:
        model: valid.
        shapes: the input shapes, by operand, which are the hints of the extents.
    """
    from neurald.drivers.compiler.ir.extents.scope import ExtentScope

    main = model.main
    symbols: dict[tuple[int, int], int] = {}
    for index, shape in shapes.items():
        for position in open_positions(main.operands[index], shape):
            symbols.setdefault((position, shape[position]), len(symbols))
    scope = ExtentScope(length for _, length in symbols)
    opened: dict[int, Shape] = {}
    for index, shape in shapes.items():
        lengths = list(shape)
        for position in open_positions(main.operands[index], shape):
            lengths[position] = scope.symbols[symbols[position, shape[position]]]
        opened[index] = tuple(lengths)
    return scope, opened


def usual_shapes(
    model: Model, shapes: Mapping[int, Shape], *, keeps_equal: bool = False, factor: int = 1
) -> dict[int, Shape]:
    """Returns shapes with greater lengths of the open dimensions, which are multiples of nothing.

    Decisions that are based on such lengths are also right for most others. Equal lengths at the
    same position stay equal.

    Args:
        model: valid.
        shapes: the input shapes, by operand.
        keeps_equal: whether equal lengths at different positions stay equal, too.
        factor: the number of which all lengths are multiples nevertheless.
    """
    found: dict[tuple[int, int], int] = {}
    usual: dict[int, Shape] = {}
    for index, shape in shapes.items():
        lengths = list(shape)
        for position in open_positions(model.main.operands[index], shape):
            key = 0 if keeps_equal else position, shape[position]
            if key not in found:
                number = max(shape[position], USUAL_LENGTH) // factor | 1
                while number * factor in found.values() or any(number % each == 0 for each in (3, 5, 7)):
                    number += 2
                found[key] = number * factor
            lengths[position] = found[key]
        usual[index] = tuple(lengths)
    return usual


def usual_examples(model: Model, shapes: Mapping[int, Shape]) -> Iterator[dict[int, Shape]]:
    """Yields `usual_shapes`, and then ones that keep what the given lengths have in common.

    Some models are only valid for square matrices, or for images that are divided into blocks. Code
    for lengths that are equal, or multiples of a number, is valid for others that are so. That is a
    power of 2, or else the greatest common divisor.

    Args:
        model: valid.
        shapes: the input shapes, by operand.
    """
    opened = {index: open_positions(model.main.operands[index], shape) for index, shape in shapes.items()}
    divisor = math.gcd(*(shapes[index][at] for index, found in opened.items() for at in found))
    factors = dict.fromkeys((1, min(divisor & -divisor, USUAL_LENGTH), min(divisor, _MAX_FACTOR)))
    tried: list[dict[int, Shape]] = []
    for factor, keeps_equal in product(factors, (False, True)):
        example = usual_shapes(model, shapes, keeps_equal=keeps_equal, factor=max(1, factor))
        if example not in tried:
            tried.append(example)
            yield example


def with_shorter(model: Model, shapes: Mapping[int, Shape]) -> Iterator[Mapping[int, Shape]]:
    """Yields shapes, and then ones with shorter open dimensions.

    Constants may limit lengths, such as a table of encoded positions, of which a model takes as
    many rows as its input has.

    Args:
        model: valid.
        shapes: the input shapes, by operand.
    """
    yield shapes
    opened = {index: open_positions(model.main.operands[index], shape) for index, shape in shapes.items()}
    different = sorted({shapes[index][at] for index, found in opened.items() for at in found}, reverse=True)
    for lengths in _SHORTER:
        if different and len(different) <= len(lengths) and different[-1] > lengths[0]:
            shorter = dict(zip(different, lengths, strict=False))
            yield {
                index: tuple(
                    shorter[length] if at in opened[index] else length for at, length in enumerate(shape)
                )
                for index, shape in shapes.items()
            }


def compiled_for_lengths(
    model: Model,
    shapes: Mapping[int, Shape],
    attempt: "Callable[[ExtentScope, Mapping[int, Shape]], _Compiled | None]",
    log: Logger,
) -> "tuple[ExtentScope, _Compiled] | None":
    """Compiles a model for any lengths of its open dimensions, by the first example that it can be.

    Args:
        model: valid.
        shapes: see `with_shorter`.
        attempt: compiles the model for extents; returns None to be called again with new ones.
        log: gets the reasons why the model is not compiled.

    Returns:
        The extents, and what was compiled; None if nothing is open, or it cannot be compiled.
    """
    for example in with_shorter(model, shapes):
        scope, symbolic = open_shapes(model, example)
        if not scope.symbols:
            return None
        try:
            while (compiled := attempt(scope, symbolic)) is None:
                scope, symbolic = open_shapes(model, example)
        except BadData as error:
            log.info(
                "the model is not compiled for open dimensions such as %s: %s",
                scope.hints,
                scope.readable(error),
            )
        except (Error, MemoryError):
            raise
        except Exception as error:
            # Not everything that compiles for known lengths does for open ones.
            log.info("not compiled for open dimensions: %s: %s", type(error).__name__, scope.readable(error))
            log.debug("the error was raised here:", exc_info=error)
            return None
        else:
            return scope, compiled
    return None


def known_shapes(model: Model, shapes: Sequence[Shape | None]) -> dict[int, Shape]:
    """Returns the shapes of a model's inputs that are known, by operand."""
    return {index: shape for index, shape in zip(model.main.inputs, shapes, strict=True) if shape is not None}


def open_positions(operand: Operand, shape: Shape) -> list[int]:
    """Returns the dimensions of an operand that are open in code for any lengths.

    Args:
        operand: an input.
        shape: its shape.
    """
    from neurald.drivers.compiler.ir.extents.extent import MIN_LENGTH

    declared = operand.dimensions
    if declared is None or len(declared) != len(shape):
        return []
    return [
        position
        for position, (length, given) in enumerate(zip(declared, shape, strict=True))
        if not length and given >= MIN_LENGTH
    ]
