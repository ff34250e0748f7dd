"""Runs Android's conformance records on a device."""

from collections.abc import Iterable
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.operations import DEFINITIONS

OPERAND_TYPES = {t.name: t for t in nd.OperandType} | {"SUBGRAPH": nd.OperandType.MODEL}

#: Short, for the records whose loop never ends.
LOOP_TIMEOUT_S = 0.05


def is_implemented(record: Any) -> bool:
    """Whether every operation of the record has a definition."""
    return all(
        name in nd.OperationType.__members__ and nd.OperationType[name] in DEFINITIONS
        for name in record.op_types
    )


def build(record: Any, graph: Any) -> nd.Model:
    """The model of a graph of a record, through ModelBuilder."""
    builder = nd.ModelBuilder()
    for operand in graph.operands:
        quant = operand.channel_quant
        index = builder.add_operand(
            OPERAND_TYPES[operand.type],
            operand.dims,
            scale=operand.scale,
            zero_point=operand.zero_point,
            channel_quant=None if quant is None else (quant["dim"], quant["scales"]),
        )
        if operand.lifetime == "SUBGRAPH":
            referenced = record.referenced[int(operand.data)]
            builder.set_operand_value_from_model(index, build(record, referenced))
        elif operand.lifetime == "NO_VALUE":
            builder.set_operand_value(index, None)
        elif operand.lifetime.startswith("CONSTANT"):
            builder.set_operand_value(index, operand.data)
    for operation in graph.operations:
        builder.add_operation(nd.OperationType[operation.type], operation.inputs, operation.outputs)
    builder.identify_inputs_and_outputs(graph.inputs, graph.outputs)
    builder.relax_computation_float32_to_float16(record.relaxed)
    return builder.finish()


def run(record: Any, device: nd.Device) -> list[np.ndarray[Any, Any]]:
    """Builds, compiles and executes a record; the results have their real shapes."""
    model = build(record, record.main)
    compilation = nd.CompilationBuilder(model, [device]).finish()
    execution = nd.Execution(compilation)
    if "loop_timeout" in record.tags:
        execution.set_loop_timeout(LOOP_TIMEOUT_S)
    for position, array in enumerate(record.inputs):
        execution.set_input(position, None if array is None else np.array(array))
    outputs = []
    for position, (index, expected) in enumerate(zip(model.main.outputs, record.outputs, strict=True)):
        operand = model.main.operands[index]
        outputs.append(np.zeros(expected.dims, operand.type.dtype))
        execution.set_output(position, outputs[-1])
    execution.compute()
    return [
        output.reshape(-1)[: int(np.prod(shape))].reshape(shape)
        for output, shape in zip(outputs, execution.output_shapes(), strict=True)
    ]


def failures(loader: Any, records: Iterable[Any], device: nd.Device) -> list[str]:
    """One line for each record that does not behave as it should."""
    lines = []
    for record in records:
        try:
            results = run(record, device)
        except nd.Error as error:
            if not record.expect_failure:
                lines.append(f"{record.name}: {error.code.name}: {error}")
            continue
        if record.expect_failure:
            lines.append(f"{record.name}: it was run; a failure is expected")
        else:
            lines += [f"{record.name}: {line}" for line in loader.mismatches(record, results)]
    return lines
