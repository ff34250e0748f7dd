"""Checks of arguments that determine sizes and positions, which may have arbitrary values."""

from neurald.hal.errors import BadData
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check
from neurald.hal.operations.machinery.rules import have_same_scale


def integers(call: Call, name: str, shape: Shape) -> Array:
    """Returns the value of an input that must have the given shape.

    Raises:
        BadData: it has another shape.
        UnknownValue: its shape or value is not known.
    """
    found = call.shape(name)
    if found != shape:
        raise BadData(f"{call.name(name)} has shape {list(found)}; {list(shape)} is expected")
    return call.array(name)


def slice_range(part: slice, length: int) -> tuple[int, int, int]:
    """Returns the first index, the number of indices and the step of a slice of a dimension.

    It is `range(*part.indices(length))`, but the length need not be an int: a compiler may infer
    shapes with lengths that it does not know.
    """
    step = 1 if part.step is None else part.step
    low, high = (0, length) if step > 0 else (-1, length - 1)

    def clamped(index: int | None, default: int) -> int:
        if index is None:
            return default
        if index < 0:
            index += length
            return index if index >= low else low
        return index if index <= high else high

    start, stop = (
        clamped(part.start, low if step > 0 else high),
        clamped(part.stop, high if step > 0 else low),
    )
    count = -((start - stop) // step)
    return start, count if count >= 0 else 0, step


def one_scale(many: str, one: str) -> Check:
    """Returns a check that arguments `many`, if quantised, have scale and zero point of `one`."""

    def check(call: Call) -> None:
        expected = call.operand(one)
        if not is_quantized(expected):
            return
        arguments = zip(call.indexes(many), call.operands(many), strict=True)
        for position, (index, operand) in enumerate(arguments):
            if not have_same_scale(operand, expected):
                raise BadData(
                    f"{call.operand_label(index)} ({many}[{position}] of {call.binding.type.name}) has "
                    f"scale {operand.scale:g} "
                    f"and zero point {operand.zero_point}; those of {one}, {expected.scale:g} and "
                    f"{expected.zero_point}, are expected"
                )

    return check
