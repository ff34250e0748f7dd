"""Variants of Android's conformance records that can be derived from a record alone."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neurald.service.conformance.records import Record, RecordOperand, RecordOperation

#: Operations whose outputs depend on the declared shape, or have no shape of their own.
_NO_DYNAMIC_OUTPUT = frozenset(("RANK", "IF", "WHILE"))

#: Operations for which signed and unsigned values differ by more than an offset of 128.
_NO_SIGNED = frozenset(("HASHTABLE_LOOKUP", "LSH_PROJECTION", "PAD_V2", "CAST", "QUANTIZED_16BIT_LSTM"))


def dynamic_output_shape(record: Record) -> Record | None:
    """Leaves the outputs' dimensions open in the model."""
    if record.expect_failure or record.op_types & _NO_DYNAMIC_OUTPUT:
        return None
    variant = copy.deepcopy(record)
    for index in variant.main.outputs:
        operand = variant.main.operands[index]
        operand.dims = (0,) * len(operand.dims)
    return variant


def constants_as_inputs(record: Record) -> Record | None:
    """Turns the constant tensors of the only operation into inputs."""
    if record.expect_failure or len(record.main.operations) != 1 or record.referenced:
        return None
    variant = copy.deepcopy(record)
    changed = False
    for index, operand in enumerate(variant.main.operands):
        if operand.is_tensor and operand.lifetime.startswith("CONSTANT"):
            operand.lifetime = "SUBGRAPH_INPUT"
            variant.main.inputs.append(index)
            variant.inputs.append(operand.data)
            changed = True
    return variant if changed else None


def signed_quant8(record: Record) -> Record | None:
    """Converts TENSOR_QUANT8_ASYMM to TENSOR_QUANT8_ASYMM_SIGNED, with values 128 lower."""
    unsigned = "TENSOR_QUANT8_ASYMM"
    if (
        record.expect_failure
        or len(record.main.operations) != 1
        or record.referenced
        or record.op in _NO_SIGNED
        or unsigned not in {operand.type for operand in record.main.operands}
    ):
        return None
    variant = copy.deepcopy(record)

    def lowered(data: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any] | None:
        return None if data is None else (data.astype(np.int16) - 128).astype(np.int8)

    for operand in variant.main.operands:
        if operand.type == unsigned:
            operand.type += "_SIGNED"
            operand.zero_point -= 128
            operand.data = lowered(operand.data)
    for position, index in enumerate(record.main.inputs):
        if record.main.operands[index].type == unsigned:
            variant.inputs[position] = lowered(variant.inputs[position])
    for output in variant.outputs:
        if output.type == unsigned:
            output.type += "_SIGNED"
            output.data = lowered(output.data)
    return variant


VARIANTS: Mapping[str, Callable[[Record], Record | None]] = {
    "dynamic output shape": dynamic_output_shape,
    "constants as inputs": constants_as_inputs,
    "signed quant8": signed_quant8,
}


#: Types to which a zero can be added, and the stored value of zero.
_ADDABLE = frozenset(
    ("TENSOR_FLOAT32", "TENSOR_FLOAT16", "TENSOR_INT32", "TENSOR_QUANT8_ASYMM", "TENSOR_QUANT8_ASYMM_SIGNED")
)


def inputs_as_internal(record: Record) -> Record | None:
    """Adds zero to each input first, so that the operation under test reads intermediate values."""
    if record.expect_failure or record.referenced:
        return None
    variant = copy.deepcopy(record)
    graph = variant.main
    before = []
    for position, index in enumerate(graph.inputs):
        operand = graph.operands[index]
        value = variant.inputs[position]
        is_shape_known = 0 not in operand.dims and 1 <= len(operand.dims) <= 4
        if value is None or operand.type not in _ADDABLE or not is_shape_known or not value.size:
            continue
        new = copy.deepcopy(operand)
        operand.lifetime = "TEMPORARY_VARIABLE"
        zero = copy.deepcopy(new)
        zero.lifetime, zero.dims = "CONSTANT_COPY", (1,)
        zero.data = np.full(1, zero.zero_point, value.dtype)
        activation = RecordOperand(
            type="INT32",
            dims=(),
            scale=0.0,
            zero_point=0,
            channel_quant=None,
            lifetime="CONSTANT_COPY",
            data=np.zeros((), np.int32),
        )
        first = len(graph.operands)
        graph.operands += [new, zero, activation]
        graph.inputs[position] = first
        before.append(RecordOperation(type="ADD", inputs=[first, first + 1, first + 2], outputs=[index]))
    graph.operations[:0] = before
    return variant if before else None
