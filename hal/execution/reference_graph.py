"""A graph whose operations run one after another on references, except for compiled segments."""

import time
from collections.abc import Sequence
from typing import TypeAlias

from neurald.hal.device import REFERENCE, KernelTime
from neurald.hal.execution.array_model import ExecutionLimits
from neurald.hal.execution.compiled_segment import CompiledSegment
from neurald.hal.execution.graph_operations import GraphOperations, OperandValues
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Binding

#: A unit of execution: an operation on its reference, by position, or a compiled segment.
Step: TypeAlias = int | CompiledSegment


class ExecutionState:
    """State of one execution.

    Control flow calls back into it (`neurald.hal.operations.machinery.call.GraphRunner`).

    Args:
        referenced: the graphs that control flow refers to.
        limits: the limits of the execution.
        times: receives the duration of each step of the main graph; None if not measured.
    """

    def __init__(
        self,
        referenced: Sequence["ReferenceGraph"],
        limits: ExecutionLimits,
        times: list[KernelTime] | None = None,
    ) -> None:
        self._referenced = referenced
        self.limits = limits
        self.times = times

    def run(self, graph: int, inputs: Sequence[Array]) -> list[Array]:
        """See `GraphRunner.run`."""
        times, self.times = self.times, None
        try:
            return self._referenced[graph].run(inputs, self)
        finally:
            self.times = times

    def loop_deadline_s(self) -> float:
        """See `GraphRunner.loop_deadline_s`."""
        return self.limits.loop_deadline_s()


class ReferenceGraph:
    """A graph and everything about it that does not change between executions.

    Attributes:
        graph: as given.
        steps: as given; each operation is a step if nothing is compiled.

    Args:
        model: the model of the graph.
        graph: each of its operations has a reference.
        steps: positions of operations, and compiled segments, in an order in which they can run;
            None if nothing is compiled.
    """

    def __init__(self, model: Model, graph: Subgraph, steps: Sequence[Step] | None = None) -> None:
        self.graph = graph
        self._model = model
        self._operations = GraphOperations(model, graph)
        self.steps: Sequence[Step] = range(len(graph.operations)) if steps is None else steps
        self._dead_after = self._last_uses()

    @property
    def segments(self) -> tuple[CompiledSegment, ...]:
        """The compiled segments."""
        return tuple(step for step in self.steps if not isinstance(step, int))

    @property
    def is_tolerant(self) -> bool:
        """True if executions stay inside their memory even if inputs change meanwhile."""
        return all(segment.is_tolerant for segment in self.segments) and only_calculates(
            self._model, self.graph, self._operations.bindings, self._operations.definitions
        )

    @property
    def is_random(self) -> bool:
        """True if results of equal inputs differ."""
        return any(definition.is_random for definition in self._operations.definitions)

    def _last_uses(self) -> list[list[int]]:
        """Returns for each step the operands that no later step reads."""
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for index in _operands_of(self.graph, step):
                last[index] = number
        dead: list[list[int]] = [[] for _ in self.steps]
        for index, number in last.items():
            if index not in self.graph.outputs and index not in self._operations.constants:
                dead[number].append(index)
        return dead

    def run(self, inputs: Sequence[Array | None], run: ExecutionState) -> list[Array]:
        """Computes the outputs for these inputs; None stands for an omitted input."""
        values, omitted = self._operations.start(inputs)
        for number, step in enumerate(self.steps):
            started = 0 if run.times is None else time.perf_counter_ns()
            is_compiled = not isinstance(step, int) and self._run_segment(step, values, run)
            positions = (step,) if isinstance(step, int) else step.operations
            if not is_compiled:
                for position in positions:
                    self._operations.compute(position, values, omitted, run, run.limits)
            if run.times is not None:
                if is_compiled and not isinstance(step, int):
                    run.times.extend(step.profile())
                else:
                    run.times.append(self._time(positions, time.perf_counter_ns() - started))
            for index in self._dead_after[number]:
                values.drop(index)
        return [values[index] for index in self.graph.outputs]

    def _time(self, positions: tuple[int, ...], duration_ns: int) -> KernelTime:
        """Returns the duration of operations on references."""
        name = self.graph.operations[positions[0]].type.name
        return KernelTime(name=name, duration_ns=duration_ns, operations=positions, label=REFERENCE)

    def _run_segment(self, segment: CompiledSegment, values: OperandValues, run: ExecutionState) -> bool:
        """Runs a segment and returns True.

        Returns False, without running it, if inputs are missing or have other shapes than it was
        compiled for.
        """
        run.limits.check(f"before {self._operations.name(segment.operations[0])}")
        results = segment.run([values.get(index) for index in segment.inputs], run.limits.options)
        if results is None:
            return False
        for index, (result, reservation) in zip(segment.outputs, results, strict=True):
            values.keep(index, result, reservation)
        return True


def _operands_of(graph: Subgraph, step: Step) -> tuple[int, ...]:
    """Returns the operands that a step reads and writes.

    Those of a segment include inner operands, which its references would compute.
    """
    positions = (step,) if isinstance(step, int) else step.operations
    return tuple(
        index
        for position in positions
        for index in (*graph.operations[position].inputs, *graph.operations[position].outputs)
    )


def only_calculates(
    model: Model,
    graph: Subgraph,
    bindings: Sequence[Binding],
    definitions: Sequence[Definition] | None = None,
) -> bool:
    """Returns True if data only affects arithmetic, never addresses or shapes.

    Strings contain offsets, so models with strings never qualify.
    """
    return not any(operand.type is OperandType.TENSOR_STRING for operand in graph.operands) and all(
        name in definition.arithmetic or model.constant(graph.operands[index]) is not None
        for binding, definition in zip(
            bindings, definitions or [DEFINITIONS[each.type] for each in bindings], strict=True
        )
        for name, indexes in binding.inputs.items()
        for index in indexes
        if graph.operands[index].lifetime is not Lifetime.NO_VALUE
    )
