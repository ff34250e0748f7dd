"""Computes a model operation by operation, with kernels of a driver or with references."""

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from neurald.hal.execution.array_model import ExecutionLimits
from neurald.hal.execution.graph_operations import GraphOperations, Kernel
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.hal.operations.machinery.definition import Definition


class ReferenceExecutor:
    """Computes the operations of a model in order, with a driver's kernels or with references.

    Args:
        model: a valid model, each of whose operations has a definition.
        kernels: compute the operations of a type. References compute all others.
        definitions: the definitions of operations that `neurald.hal.operations` does not define.
    """

    def __init__(
        self,
        model: Model,
        kernels: Mapping[OperationType, Kernel] = MappingProxyType({}),
        definitions: Mapping[OperationType, Definition] = MappingProxyType({}),
    ) -> None:
        self._graphs = [
            _ExecutableGraph(model, graph, kernels, definitions) for graph in (model.main, *model.referenced)
        ]

    def run(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> list[Array]:
        """Computes the outputs of the main graph, see `ArrayModel.run`."""
        return self._graphs[0].run(inputs, _GraphRunner(self._graphs[1:], limits))

    def profile(self, inputs: Sequence[Array | None], limits: ExecutionLimits) -> list[int]:
        """Runs the model and returns the nanoseconds of each operation of the main graph."""
        times_ns: list[int] = []
        self._graphs[0].run(inputs, _GraphRunner(self._graphs[1:], limits), times_ns)
        return times_ns


class _GraphRunner:
    """Implements `neurald.hal.operations.machinery.call.GraphRunner` for one execution."""

    def __init__(self, referenced: Sequence["_ExecutableGraph"], limits: ExecutionLimits) -> None:
        self._referenced = referenced
        self.limits = limits

    def run(self, graph: int, inputs: Sequence[Array]) -> list[Array]:
        return self._referenced[graph].run(inputs, self)

    def loop_deadline_s(self) -> float:
        return self.limits.loop_deadline_s()


class _ExecutableGraph:
    def __init__(
        self,
        model: Model,
        graph: Subgraph,
        kernels: Mapping[OperationType, Kernel],
        definitions: Mapping[OperationType, Definition],
    ) -> None:
        self._graph = graph
        self._operations = GraphOperations(model, graph, kernels, definitions)

    def run(
        self, inputs: Sequence[Array | None], run: _GraphRunner, times_ns: list[int] | None = None
    ) -> list[Array]:
        values, omitted = self._operations.start(inputs)
        for position in range(len(self._graph.operations)):
            started = time.perf_counter_ns()
            self._operations.compute(position, values, omitted, run, run.limits)
            if times_ns is not None:
                times_ns.append(time.perf_counter_ns() - started)
        return [values[index] for index in self._graph.outputs]
