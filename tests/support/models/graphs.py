"""Graphs described by the names of their operands, and candidates for their placement."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from neurald.hal.device import Capabilities, Performance, Verdict
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Dimensions, Lifetime, OperandType
from neurald.runtime.model.branches import Nesting, referenced_graphs
from neurald.runtime.partitioning.placement import Candidate

FLOAT = OperandType.TENSOR_FLOAT32

#: Type, names of inputs, names of outputs.
Line = tuple[OperationType, str, str]


def graph(
    inputs: str,
    lines: Iterable[Line],
    outputs: str,
    *,
    types: Mapping[str, OperandType] | None = None,
    dimensions: Mapping[str, Dimensions] | None = None,
    default: Dimensions = (2, 3),
) -> Subgraph:
    """Creates a graph.

    Names of operands are separated by spaces; `@1` refers to graph number 1 of the model.
    """
    lines = list(lines)
    ends = {Lifetime.SUBGRAPH_INPUT: inputs.split(), Lifetime.SUBGRAPH_OUTPUT: outputs.split()}
    written = {name for _, _, results in lines for name in results.split()}
    names = dict.fromkeys(
        [*inputs.split(), *(n for _, a, b in lines for n in (*a.split(), *b.split())), *outputs.split()]
    )
    operands = []
    for name in names:
        if name.startswith("@"):
            operands.append(
                Operand(
                    type=OperandType.MODEL,
                    lifetime=Lifetime.SUBGRAPH,
                    subgraph=int(name.removeprefix("@")) - 1,
                )
            )
            continue
        lifetime = next((kind for kind, members in ends.items() if name in members), None)
        if lifetime is None:
            lifetime = Lifetime.TEMPORARY_VARIABLE if name in written else Lifetime.NO_VALUE
        operands.append(
            Operand(
                type=(types or {}).get(name, FLOAT),
                dimensions=(dimensions or {}).get(name, default),
                lifetime=lifetime,
                name=name,
            )
        )
    place = {name: index for index, name in enumerate(names)}
    return Subgraph(
        operands=tuple(operands),
        operations=tuple(
            Operation(
                type=kind,
                inputs=tuple(place[name] for name in arguments.split()),
                outputs=tuple(place[name] for name in results.split()),
            )
            for kind, arguments, results in lines
        ),
        inputs=tuple(place[name] for name in inputs.split()),
        outputs=tuple(place[name] for name in outputs.split()),
    )


def model(
    inputs: str,
    lines: Iterable[Line],
    outputs: str,
    *,
    referenced: Sequence[Subgraph] = (),
    relaxed: bool = False,
    types: Mapping[str, OperandType] | None = None,
    dimensions: Mapping[str, Dimensions] | None = None,
) -> Model:
    """Creates a model whose main graph is `graph` of the same arguments."""
    main = graph(inputs, lines, outputs, types=types, dimensions=dimensions)
    return Model(main=main, referenced=tuple(referenced), relaxed=relaxed)


def chain(*types: OperationType) -> Model:
    """Creates a chain of operations that begins at operand v0."""
    lines = [(kind, f"v{n}", f"v{n + 1}") for n, kind in enumerate(types)]
    return model("v0", lines, f"v{len(types)}")


def random_graph(generator: random.Random, operations: int, types: Sequence[OperationType]) -> Subgraph:
    """Creates a random graph with branches, joins, outputs that are read, and dead operations."""
    values = ["a", "b"]
    lines: list[Line] = []
    for position in range(operations):
        arguments = generator.sample(values[-8:], k=generator.randint(1, 2))
        results = [f"r{position}_{n}" for n in range(generator.choice((1, 1, 1, 2)))]
        lines.append((generator.choice(types), " ".join(arguments), " ".join(results)))
        values += results
    computed = values[2:]
    outputs = dict.fromkeys([computed[-1], *generator.sample(computed, k=min(2, len(computed)))])
    return graph("a b", lines, " ".join(outputs))


def candidate(
    name: str,
    supports: Callable[[OperationType], bool] = lambda _: True,
    *,
    model: Model,
    time: float = 1.0,
    power: float = 1.0,
    control_flow: float = 1.0,
    performance: Mapping[OperandType, Performance] | None = None,
    relaxed_time: float = 1.0,
    is_cpu: bool = False,
) -> Candidate:
    """Creates a candidate that supports some operation types, with reasons for the others.

    It supports control flow only if it supports all operations inside.
    """
    graphs = (model.main, *model.referenced)
    #: An unsupported type in each graph or in the graphs that it refers to.
    lacking: dict[int, OperationType | None] = {}

    def missing(number: int, operation: Operation) -> OperationType | None:
        if not supports(operation.type):
            return operation.type
        inner = (lacking[n] for n in referenced_graphs(graphs[number], operation))
        return next((kind for kind in inner if kind is not None), None)

    def verdict(number: int, operation: Operation) -> Verdict:
        kind = missing(number, operation)
        return Verdict(ok=kind is None, reason="" if kind is None else f"no rule for {kind.name}")

    for number in Nesting(model).order:
        found = (missing(number, operation) for operation in graphs[number].operations)
        lacking[number] = next((kind for kind in found if kind is not None), None)
    figures = Performance(exec_time=time, power_usage=power)
    relaxed = Performance(exec_time=relaxed_time, power_usage=relaxed_time)
    flow = Performance(exec_time=control_flow, power_usage=control_flow)
    return Candidate(
        name=name,
        verdicts={
            number: tuple(verdict(number, operation) for operation in each.operations)
            for number, each in enumerate(graphs)
        },
        capabilities=Capabilities(
            operand_performance=dict.fromkeys(OperandType, figures) if performance is None else performance,
            relaxed_float32_scalar=relaxed,
            relaxed_float32_tensor=relaxed,
            if_performance=flow,
            while_performance=flow,
        ),
        is_cpu=is_cpu,
    )


def only(*types: OperationType) -> Callable[[OperationType], bool]:
    """Returns a predicate for `candidate` that accepts these types."""
    return lambda kind: kind in types


def all_but(*types: OperationType) -> Callable[[OperationType], bool]:
    """Returns a predicate for `candidate` that accepts all other types."""
    return lambda kind: kind not in types
