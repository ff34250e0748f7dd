"""Models of one recurrent layer, for tests of the first tier."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from support.cpu.layers import FLOAT, LayerBuilder, values

import neurald as nd
from neurald.hal.operations import DEFINITIONS

BOOL, INT = nd.OperandType.BOOL, nd.OperandType.INT32


GATES = ("input", "forget", "cell", "output")


def layer(
    name: str,
    given: Mapping[str, Sequence[int]],
    constants: Mapping[str, Sequence[int]],
    scalars: Mapping[str, tuple[nd.OperandType, Any]],
    outputs: Mapping[str, Sequence[int]],
    weights: nd.OperandType = FLOAT,
) -> nd.Model:
    """Returns a model of one layer, whose other inputs are omitted.

    Args:
        name: of the operation.
        given, constants, outputs: shapes by the names of parameters.
        scalars: types and values.
        weights: type of constants that are weights of inputs and states.
    """
    build, operation = LayerBuilder(3), nd.OperationType[name]
    (form,) = (
        each for each in DEFINITIONS[operation].forms if [one.name for one in each.outputs] == list(outputs)
    )
    inputs, free = [], []
    for parameter in form.inputs:
        each = parameter.name
        kind = weights if "weights" in each and "norm" not in each and "cell_to" not in each else FLOAT
        if each in scalars:
            inputs.append(build.scalar(scalars[each][1], scalars[each][0]))
        elif each in given:
            inputs.append(build.operand(FLOAT, given[each]))
            free.append(inputs[-1])
        elif each not in constants:
            inputs.append(build.operand(kind, (0,), **({} if kind is FLOAT else {"scale": 1.0})))
            build.builder.set_operand_value(inputs[-1], None)
        elif kind is FLOAT:
            array = values(build.rng, FLOAT, constants[each]) * np.float32(0.3)
            inputs.append(build.constant(FLOAT, array))
        else:
            numbers = values(build.rng, kind, constants[each])
            scale = float(build.rng.uniform(0.001, 0.005))
            inputs.append(build.constant(kind, numbers, scale=scale, zero_point=0))
    results = [build.operand(FLOAT, shape) for shape in outputs.values()]
    build.builder.add_operation(operation, inputs, results)
    build.builder.identify_inputs_and_outputs(free, results)
    return build.builder.finish()


def rnn_parameters(prefix: str, size: int, units: int) -> dict[str, Sequence[int]]:
    """Returns the shapes of the parameters of a basic cell by name."""
    return {
        f"{prefix}weights": (units, size),
        f"{prefix}recurrent_weights": (units, units),
        f"{prefix}bias": (units,),
    }


def lstm_parameters(prefix: str, size: int, units: int) -> dict[str, Sequence[int]]:
    """Returns the shapes of the parameters of an LSTM cell by name."""
    return {
        **{f"{prefix}input_to_{gate}_weights": (units, size) for gate in GATES},
        **{f"{prefix}recurrent_to_{gate}_weights": (units, units) for gate in GATES},
        **{f"{prefix}cell_to_{gate}_weights": (units,) for gate in GATES if gate != "cell"},
        **{f"{prefix}{gate}_gate_bias": (units,) for gate in GATES},
    }
