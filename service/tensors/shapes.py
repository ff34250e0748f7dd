"""Parses the input shapes of the command line: `--shape NAME=1x96x64`."""

import re
from collections.abc import Mapping, Sequence

from neurald.hal.errors import BadData
from neurald.hal.model.types import MAX_OPERAND_BYTES, Dimensions, byte_size
from neurald.service.tensors.arrays import Slot, describe_type, known_inputs, shape_fits

Shapes = Mapping[str, tuple[int, ...]]

_SHAPE = re.compile(r"[0-9]{1,10}(x[0-9]{1,10})*", re.ASCII)


def parse_shapes(settings: Sequence[str], slots: Sequence[Slot]) -> Shapes:
    """Parses the shapes of inputs from the command line.

    Args:
        settings: values of the form `NAME=SIZExSIZE…`, where the name is that of an input, or
            `input_0` and so on.
        slots: the model's inputs.

    Returns:
        The shapes of the inputs that a setting names, by the inputs' keys.

    Raises:
        BadData: a setting is invalid, names an unknown input or one twice, or contradicts the
            model's input.
    """
    by_name = {name: slot for slot in slots for name in (slot.alias, slot.key)}
    shapes: dict[str, tuple[int, ...]] = {}
    for setting in settings:
        name, _, text = setting.rpartition("=")
        if not name or not _SHAPE.fullmatch(text):
            raise BadData(f"shape {setting!r} cannot be read; expected NAME=SIZExSIZE, such as x=1x224x224x3")
        if name not in by_name:
            raise BadData(f"shape {setting!r} names no input; {known_inputs(slots)}")
        slot = by_name[name]
        if slot.key in shapes:
            raise BadData(
                f"shape {setting!r}: input {slot.key!r} already has a shape; give at most one for each input"
            )
        shape = tuple(map(int, text.split("x")))
        if not shape_fits(shape, slot.operand.dimensions):
            want = describe_type("", slot.operand.dimensions).strip()
            raise BadData(f"shape {setting!r} does not match input {slot.key!r}, which has the shape {want}")
        size_bytes = byte_size(slot.operand.type, shape)
        if size_bytes > MAX_OPERAND_BYTES:
            raise BadData(
                f"shape {setting!r} takes {size_bytes} bytes; an operand has at most {MAX_OPERAND_BYTES}"
            )
        shapes[slot.key] = shape
    return shapes


def _example(dimensions: Dimensions) -> str:
    """Returns a shape in the form in which users give it, with SIZE for each open length."""
    return "x".join(str(length or "SIZE") for length in dimensions or (0, 0))


def default_shape_remarks(slots: Sequence[Slot], shapes: Shapes) -> list[str]:
    """Returns a remark on each input whose shape neither the model nor the user specifies."""
    return [
        f"input {slot.describe()} has no fixed shape; size 1 is used for each '?' "
        f"(--shape {slot.key}={_example(slot.operand.dimensions)} sets another one)"
        for slot in slots
        if slot.key not in shapes and (slot.operand.dimensions is None or 0 in slot.operand.dimensions)
    ]
