"""Common parts of recurrent operations: activations, optional operands, shapes, and the time axis.

Cells compute in float32 regardless of the operand types, also between time steps, and round once at
the end. Weights are passed to a cell as linear maps, so that it is independent of their storage
format.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import Lifetime
from neurald.hal.operations.arithmetic.quantized import real
from neurald.hal.operations.elementwise.activation import sigmoid
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.operations.machinery.definition import Check

#: A linear map of rows: from shape (n, elements) to (n, units), both float32.
LinearMap = Callable[[Array], Array]


class CellActivation(IntEnum):
    """The activation of a cell. The numbers are TFLite's; 5, SIGN_BIT, is not supported."""

    NONE = 0
    RELU = 1
    RELU1 = 2
    RELU6 = 3
    TANH = 4
    SIGMOID = 6

    def __call__(self, values: Array) -> Array:
        """Applies the function to floats."""
        return _FUNCTIONS[self](values)


_FUNCTIONS: dict[CellActivation, Callable[[Array], Array]] = {
    CellActivation.NONE: lambda values: values,
    CellActivation.RELU: lambda values: np.maximum(values, 0),
    CellActivation.RELU1: lambda values: np.clip(values, -1, 1),
    CellActivation.RELU6: lambda values: np.clip(values, 0, 6),
    CellActivation.TANH: np.tanh,
    CellActivation.SIGMOID: sigmoid,
}

#: The activations of basic cells and of SVDF.
BASIC_ACTIVATIONS = tuple(CellActivation)


def cell_activation(call: Call, allowed: Sequence[CellActivation]) -> CellActivation:
    """Returns the activation of the parameter `cell_activation`.

    Raises:
        BadData: it is not one of `allowed`.
    """
    value = call.scalar("cell_activation")
    if value not in allowed:
        known = ", ".join(f"{int(kind)} ({kind.name})" for kind in allowed)
        raise BadData(f"{call.name('cell_activation')} is {value}; one of {known} is expected")
    return CellActivation(value)


def known_cell_activation(allowed: Sequence[CellActivation]) -> Check:
    """Returns a check that the parameter `cell_activation` is one of `allowed`."""

    def check(call: Call) -> None:
        cell_activation(call, allowed)

    return check


def is_given(call: Call, name: str) -> bool:
    """Returns True if an input has a value.

    Raises:
        UnknownValue: it is an optional graph input: only an execution determines whether it is
            given.
    """
    if not call.has(name):
        return False
    if call.operand(name).lifetime is Lifetime.SUBGRAPH_INPUT and _is_optional(call, name):
        if call.expects_inputs:
            call.shape(name)
        else:
            call.array(name)
    return True


def _is_optional(call: Call, name: str) -> bool:
    return any(parameter.optional for parameter in call.binding.form.inputs if parameter.name == name)


def all_or_none(call: Call, names: Sequence[str], purpose: str) -> bool:
    """Returns True if the named inputs, which serve a common purpose, are given.

    Raises:
        BadData: only some of them are given.
        UnknownValue: see `is_given`.
    """
    given = [name for name in names if is_given(call, name)]
    missing = [name for name in names if name not in given]
    if given and missing:
        raise BadData(
            f"{call.name(missing[0])} is omitted, {call.name(given[0])} is given; "
            f"{purpose} needs all or none of {', '.join(names)}"
        )
    return bool(given)


def expect_omitted(call: Call, name: str, reason: str) -> None:
    """Raises BadData if that input is given; raises UnknownValue like `is_given`."""
    if is_given(call, name):
        raise BadData(f"{call.name(name)} is given; it must be omitted {reason}")


def expect_shape(call: Call, name: str, expected: Sequence[int | None]) -> None:
    """Raises BadData unless the named input has that shape; None matches any length."""
    shape = call.shape(name)
    if len(shape) != len(expected) or any(e not in (None, s) for s, e in zip(shape, expected, strict=True)):
        lengths = ", ".join("any" if length is None else str(length) for length in expected)
        raise BadData(f"{call.name(name)} has shape {list(shape)}; [{lengths}] is expected")


def expect_shapes(call: Call, shapes: Mapping[str, Sequence[int | None]]) -> None:
    """Raises BadData unless the named inputs that are given and known have those shapes."""
    for name, expected in shapes.items():
        try:
            if is_given(call, name):
                expect_shape(call, name, expected)
        except UnknownValue:
            continue


def expect_elements(call: Call, name: str) -> None:
    """Raises BadData if the named weights are empty."""
    shape = call.shape(name)
    if 0 in shape:
        raise BadData(
            f"{call.name(name)} has shape {list(shape)}; at least 1 along each dimension is expected"
        )


def dense(weights: Array) -> LinearMap:
    """Returns the linear map of float32 weights of shape (units, elements).

    Sums are infinite only if they exceed float32, independently of the order of addition: partial
    sums that overflow to infinities of both signs would give NaN on some processors and not on
    others.
    """
    columns = weights.T

    def linear(rows: Array) -> Array:
        products: Array = rows @ columns
        if not np.isfinite(products).all():
            products = (rows.astype(np.float64) @ columns.astype(np.float64)).astype(np.float32)
        return products

    return linear


def quantized(weights: Array, scale: float, *, asymmetric: bool) -> LinearMap:
    """Returns the linear map of 8-bit weights; its float input is quantised row by row."""
    from neurald.hal.operations.arithmetic.row_quantization import quantize_rows  # Only to compute.

    columns, step = weights.T.astype(np.float64), np.float32(scale)

    def linear(rows: Array) -> Array:
        quantized_values, scales, zero_points = quantize_rows(rows, asymmetric=asymmetric)
        sums = (quantized_values.astype(np.float64) - zero_points[:, np.newaxis]) @ columns
        products: Array = sums.astype(np.float32) * (scales * step)[:, np.newaxis]
        return products

    return linear


def linear_map(call: Call, name: str) -> LinearMap:
    """Returns the linear map of an operation's weights, which are float or 8-bit.

    For 8-bit weights the argument `asymmetric` selects the quantisation of the input.
    """
    operand = call.operand(name)
    if is_quantized(operand):
        return quantized(call.array(name), operand.scale, asymmetric=call.scalar("asymmetric"))
    return dense(real(call, name))


def linear_rows(linear: LinearMap, sequence: Array) -> Array:
    """Applies a linear map to all steps: from (time, batch, elements) to (time, batch, units)."""
    time, batch, elements = sequence.shape
    rows = linear(sequence.reshape(time * batch, elements))
    return rows.reshape(time, batch, rows.shape[-1])


def time_steps(count: int, *, backward: bool) -> Iterable[int]:
    """Returns the steps in processing order."""
    return range(count - 1, -1, -1) if backward else range(count)


def cast_results(call: Call, *results: Array) -> tuple[Array, ...]:
    """Casts results to the type of the operation's input, which all outputs share."""
    dtype = call.operand("input").type.dtype
    with np.errstate(over="ignore"):
        return tuple(result.astype(dtype, copy=False) for result in results)


def swap_batch(sequence: Array, *, time_major: bool) -> Array:
    """Converts a batch-major sequence to time-major or back; `time_major` ones are unchanged."""
    return sequence if time_major else sequence.swapaxes(0, 1)
