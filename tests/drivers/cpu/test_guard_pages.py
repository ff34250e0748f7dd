"""Compiled kernels access only their inputs, outputs and constants, which guard pages surround."""

from collections.abc import Iterator, Mapping
from contextlib import closing

import numpy as np
import pytest

from neurald.hal.device import Device, PrepareOptions
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.records import replace
from neurald.hal.registry import create_device
from neurald.service.conformance.cases.case import Case, CaseSignature, signatures
from neurald.service.conformance.cases.variation import base_case
from neurald.service.conformance.guard.run import GuardProcessRunner

IMAGE = (1, 13, 11, 17)
#: A shape with random elements, or a number, by position of the input. Other inputs are those of
#: the base case.
Values = dict[int, tuple[int, ...] | int]
#: Padding of windows.
_AROUND: Values = dict.fromkeys(range(3, 7), 1)
_NOWHERE: Values = dict.fromkeys(range(3, 7), 0)
#: Lengths are not multiples of vectors or tiles.
CASES: Mapping[str, tuple[str, Values]] = {
    "convolution": (
        "CONV_2D",
        {0: IMAGE, 1: (19, 3, 3, 17), 2: (19,)} | _AROUND | {7: 1, 8: 1, 10: 0, 11: 1, 12: 1},
    ),
    "strided convolution": (
        "CONV_2D",
        {0: IMAGE, 1: (19, 3, 3, 17), 2: (19,)} | _AROUND | {7: 2, 8: 2, 10: 0, 11: 1, 12: 1},
    ),
    "pointwise convolution": (
        "CONV_2D",
        {0: IMAGE, 1: (35, 1, 1, 17), 2: (35,)} | _NOWHERE | {7: 1, 8: 1, 10: 0, 11: 1, 12: 1},
    ),
    # The input is aligned at either side of guard pages, so that it is read where it is.
    "grouped convolution": (
        "GROUPED_CONV_2D",
        {0: (1, 8, 8, 16), 1: (12, 3, 3, 4), 2: (12,)} | _AROUND | {7: 1, 8: 1, 9: 4, 10: 0, 11: 0},
    ),
    "depthwise convolution": (
        "DEPTHWISE_CONV_2D",
        {0: IMAGE, 1: (1, 3, 3, 17), 2: (17,)} | _AROUND | {7: 1, 8: 1, 9: 1, 10: 0, 11: 0, 12: 1, 13: 1},
    ),
    "fully connected": ("FULLY_CONNECTED", {0: (5, 37), 1: (23, 37), 2: (23,)}),
    "one row": ("FULLY_CONNECTED", {0: (1, 131), 1: (67, 131), 2: (67,)}),
    "matrix product": ("BATCH_MATMUL", {0: (3, 5, 37), 1: (3, 37, 11), 2: 0, 3: 0}),
    "sum": ("ADD", {0: (3, 5, 7, 11), 1: (3, 5, 7, 11)}),
    "product with a column": ("MUL", {0: (3, 5, 7, 11), 1: (7, 1)}),
    "logistic": ("LOGISTIC", {0: (3, 5, 67)}),
    "tanh": ("TANH", {0: (1, 131)}),
    "largest of a window": ("MAX_POOL_2D", {0: IMAGE, 5: 2, 6: 2, 7: 3, 8: 3, 10: 0}),
    "average of a window": ("AVERAGE_POOL_2D", {0: IMAGE, 5: 1, 6: 1, 7: 3, 8: 2, 10: 0}),
    "gather": ("GATHER", {0: (13, 11, 13)}),
    "transpose": ("TRANSPOSE", {0: (13, 7, 19)}),
    "slice": ("SLICE", {}),
    "strided slice": ("STRIDED_SLICE", {}),
    "concatenation": ("CONCATENATION", {}),
    "pad": ("PAD", {}),
    "softmax": ("SOFTMAX", {0: (3, 5, 101)}),
    "sum over an axis": ("REDUCE_SUM", {}),
    "largest over an axis": ("REDUCE_MAX", {}),
    "mean": ("MEAN", {}),
    "position of the largest": ("ARGMAX", {}),
}


@pytest.fixture(scope="module")
def device() -> Device:
    return create_device("cpu")


@pytest.fixture(scope="module")
def runs(device: Device) -> Iterator[GuardProcessRunner]:
    with closing(GuardProcessRunner("cpu", device.name)) as found:
        yield found


def drawn(operand: Operand, value: tuple[int, ...] | int, seed: int) -> Array:
    """Returns random elements of an operand; sums of products of floats are exact."""
    dtype = operand.type.dtype
    if not isinstance(value, tuple):
        return np.asarray(value, dtype)
    rng = np.random.default_rng(seed)
    if dtype.kind == "f":
        return (rng.integers(-8, 9, value) / 8).astype(dtype)
    low, high = (-100, 100) if dtype.itemsize > 1 else (np.iinfo(dtype.name).min, np.iinfo(dtype.name).max)
    return rng.integers(low, high, value, endpoint=True).astype(dtype)


def with_channels(operand: Operand, value: Array | None) -> Operand:
    """Returns the operand with as many scales as the weights have channels."""
    quant = operand.channel_quant
    if quant is None or value is None:
        return operand
    count = value.shape[quant.dimension]
    return replace(
        operand, channel_quant=replace(quant, scales=tuple((1 + n % 5) / 64 for n in range(count)))
    )


def cases(signature: CaseSignature, values: Values) -> Iterator[Case]:
    """Yields a case with all tensors as inputs, and one with all but the first as constants."""
    first = base_case(signature)
    assert first is not None
    given = [
        drawn(operand, values[index], index) if index in values else value
        for index, (operand, value) in enumerate(zip(first.operands, first.values, strict=False))
    ]
    operands = [
        with_channels(operand, given[index] if index < len(given) else None)
        for index, operand in enumerate(first.operands)
    ]
    for model_inputs in dict.fromkeys((first.model_inputs, first.model_inputs[:1])):
        yield first.changed(values=given, operands=operands, model_inputs=model_inputs)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_kernels_stay_inside_their_buffers(name: str, device: Device, runs: GuardProcessRunner) -> None:
    operation, values = CASES[name]
    references = []
    for signature in signatures((OperationType[operation],)):
        if signature.form:
            continue
        for case in cases(signature, values):
            assert runs.find_error(case) == "", case.name
            prepared = device.prepare_model(case.model, PrepareOptions())
            if any(kernel.is_reference for kernel in prepared.profile()):
                references.append(case.name)
    assert references == [], "they would not show what kernels touch"
