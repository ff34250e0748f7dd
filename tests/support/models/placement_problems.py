"""Random placement problems."""

import random
from collections.abc import Sequence

import numpy as np

from neurald.hal.device import Capabilities, Performance
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.runtime.costs.estimate import DeviceCosts
from neurald.runtime.costs.graph_arrays import GraphArrays
from neurald.runtime.costs.table import DeviceLink
from neurald.runtime.partitioning.min_cost.problem import PlacementProblem
from neurald.runtime.partitioning.min_cost.value_graph import ValueGraph

_UNIT = Performance(exec_time=1.0, power_usage=1.0)
CAPABILITIES = Capabilities(
    operand_performance=dict.fromkeys(OperandType, _UNIT),
    relaxed_float32_scalar=_UNIT,
    relaxed_float32_tensor=_UNIT,
    if_performance=_UNIT,
    while_performance=_UNIT,
)


def random_dag(rng: random.Random, operations: int) -> Model:
    """Returns a model of operations with one or two inputs each; nothing looks at their types."""
    operands: list[Operand] = []

    def add(lifetime: Lifetime) -> int:
        shape = (rng.choice([1, 16, 256, 4096]),)
        operands.append(Operand(type=OperandType.TENSOR_FLOAT32, dimensions=shape, lifetime=lifetime))
        return len(operands) - 1

    inputs = [add(Lifetime.SUBGRAPH_INPUT) for _ in range(rng.randint(1, 2))]
    readable = list(inputs)
    body = []
    read: set[int] = set()
    for _ in range(operations):
        recent = readable[-rng.choice([1, 3, len(readable)]) :]
        chosen = tuple(rng.choice(recent) for _ in range(rng.randint(1, 2)))
        output = add(Lifetime.TEMPORARY_VARIABLE)
        body.append(Operation(type=OperationType.ADD, inputs=chosen, outputs=(output,)))
        read.update(chosen)
        readable.append(output)
    outputs = tuple(
        each for operation in body for each in operation.outputs if each not in read or rng.random() < 0.1
    )
    for index in outputs:
        operands[index] = Operand(
            type=operands[index].type,
            dimensions=operands[index].dimensions,
            lifetime=Lifetime.SUBGRAPH_OUTPUT,
        )
    return Model(
        main=Subgraph(operands=tuple(operands), operations=tuple(body), inputs=tuple(inputs), outputs=outputs)
    )


def random_problem(
    rng: random.Random, operations: int, devices: int, *, is_sequential: bool = False
) -> PlacementProblem:
    """Returns a problem with random costs, launches and links; the first one can run everything."""
    model = random_dag(rng, operations)
    known = [
        DeviceCosts(
            capabilities=CAPABILITIES,
            launch_s=rng.choice([1e-6, 1e-4, 1e-3]),
            step_s=rng.choice([5e-6, 2e-5, 1e-4]),
            link=DeviceLink()
            if number == 0
            else DeviceLink(
                input_bytes_per_s=rng.choice([1e7, 1e9, float("inf")]),
                output_bytes_per_s=rng.choice([1e7, 1e9, float("inf")]),
            ),
        )
        for number in range(devices)
    ]
    speeds = [1.0] + [rng.choice([0.1, 0.5, 1.0, 2.0]) for _ in range(devices - 1)]

    def cost_of(position: int) -> list[float]:
        work = rng.choice([1e-5, 1e-4, 1e-3, 5e-3])
        costs = [
            work * speed * rng.uniform(0.8, 1.2) if number == 0 or rng.random() < 0.8 else float("inf")
            for number, speed in enumerate(speeds)
        ]
        return [*costs, float("inf")]

    costs = [cost_of(position) for position in range(operations)]
    return problem_of(model, known, costs, is_sequential=is_sequential)


def problem_of(
    model: Model, devices: Sequence[DeviceCosts], costs: Sequence[Sequence[float]], *, is_sequential: bool
) -> PlacementProblem:
    """Returns the problem of placing a model's main graph.

    Args:
        model: with operations.
        devices: the candidates.
        costs: by operation, on each device and on the interpreter.
        is_sequential: see `PlacementProblem`.
    """
    values = ValueGraph.of(GraphArrays.of(model.main))
    return PlacementProblem(values, np.array(costs), devices, is_sequential=is_sequential)
