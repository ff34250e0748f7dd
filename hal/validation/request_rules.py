"""Validates requests against their models. The runtime and every daemon run these checks."""

from collections.abc import Sequence

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import Memory, checked_range
from neurald.hal.model.device_buffer import DeviceBuffer
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import MAX_OPERAND_BYTES, Dimensions, OperandType, byte_size


def validate_request(model: Model, request: Request) -> None:
    """Checks a request against its model.

    Raises:
        BadData: the number of arguments is wrong, or one has another shape or size than the
            model's, or lies outside its pool.
    """
    for arguments, indexes, what in (
        (request.inputs, model.main.inputs, "input"),
        (request.outputs, model.main.outputs, "output"),
    ):
        if len(arguments) != len(indexes):
            raise BadData(f"{len(arguments)} {what}s; the model has {len(indexes)}")
        for position, (argument, index) in enumerate(zip(arguments, indexes, strict=True)):
            operand = model.main.operands[index]
            where = f"{what} {position}"
            validate_argument(argument, operand, request.pools, where, is_output=what == "output")


def validate_argument(
    argument: Argument, operand: Operand, pools: Sequence[Memory], where: str, *, is_output: bool
) -> None:
    """Checks one argument of a request against its operand. `where` names it in messages.

    Raises:
        BadData: see `validate_request`.
    """
    if argument.pool is None:
        if is_output:
            raise BadData(f"{where}: no memory is given; every output needs some")
        if argument.length or argument.offset or argument.padding:
            raise BadData(f"{where}: an omitted argument must have offset, length and padding 0")
        return
    if not 0 <= argument.pool < len(pools):
        raise BadData(f"{where}: pool {argument.pool}; the request has {len(pools)}")
    pool = pools[argument.pool]
    if argument.padding < 0:
        raise BadData(f"{where}: padding of {argument.padding} bytes; it must not be negative")
    checked_range(argument.offset, argument.length + argument.padding, pool.size, where)
    if is_output and pool.readonly:
        raise BadData(f"{where}: its memory is read-only; an output needs memory that can be written")
    _require_specific(operand.dimensions, argument.dimensions, where)
    dimensions = merge_dimensions(operand.dimensions, argument.dimensions, where)
    if isinstance(pool, DeviceBuffer):
        if argument.offset or argument.length or argument.padding:
            raise BadData(f"{where}: device memory is used as a whole; offset, length and padding must be 0")
        return
    if is_output and (dimensions is None or 0 in dimensions):
        return
    if dimensions is None or (0 in dimensions and argument.dimensions is None):
        shape = "unknown rank" if dimensions is None else list(dimensions)
        raise BadData(f"{where}: its shape is {shape}; it must be fully specified")
    needed = byte_size(operand.type, dimensions)
    if needed > MAX_OPERAND_BYTES:
        raise BadData(f"{where}: shape {list(dimensions)} has more than 2^32 - 1 bytes")
    if operand.type is OperandType.TENSOR_STRING:
        # Only the device that reads the strings can check that they fit: they may change until
        # then.
        if argument.length < needed and not is_output:
            raise BadData(
                f"{where}: {argument.length} bytes; strings of shape {list(dimensions)} have at least {needed}"
            )
        return
    if argument.length != needed:
        raise BadData(f"{where}: {argument.length} bytes; {operand.type.name}{list(dimensions)} has {needed}")


def _require_specific(declared: Dimensions, given: Dimensions, where: str) -> None:
    """Checks that an argument specifies every dimension that the model specifies."""
    if given is None or declared is None or given == declared:
        return
    if len(given) == len(declared) and any(d and not g for g, d in zip(given, declared, strict=True)):
        raise BadData(
            f"{where}: shape {list(given)} leaves dimensions open that the model specifies as {list(declared)}"
        )


def merge_dimensions(declared: Dimensions, given: Dimensions, what: str) -> Dimensions:
    """Combines the dimensions of an operand and an argument to the most specific ones.

    Raises:
        BadData: the rank or a dimension known to both differs.
    """
    if given is None or declared is None or given == declared:
        return declared if given is None else given
    if len(given) != len(declared) or any(
        g not in (0, d) and d != 0 for g, d in zip(given, declared, strict=True)
    ):
        raise BadData(f"{what}: shape {list(given)}; the model has {list(declared)}, where 0 means any")
    return tuple(g or d for g, d in zip(given, declared, strict=True))
