"""Builds the program of a plan from groups: a list of steps and jumps, and their values."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from neurald.hal.memory.arena_planner import Lifespan, MemoryPlan
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import operand_number, operation_number
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.runtime.model.branches import MAIN, graph_of, referenced_graphs
from neurald.runtime.partitioning.groups import Group, IfGroup, StepGroup, WhileGroup
from neurald.runtime.plan.arena import plan_arena
from neurald.runtime.plan.plan import (
    ConstantBytes,
    ExecutionStep,
    GotoStep,
    IfStep,
    PlanStep,
    PlanValue,
    WhileStep,
)
from neurald.runtime.plan.step_order import steps_to_wait_for

#: Builds the step of a group, without its values.
MakeStep: TypeAlias = Callable[[StepGroup], ExecutionStep]


class PlanProgram(Struct, frozen=True, kw_only=True):
    """The parts of a `neurald.runtime.plan.plan.CompoundBody` that follow from the groups."""

    steps: tuple[PlanStep, ...]
    values: tuple[PlanValue, ...]
    arena: MemoryPlan
    waits_for: tuple[frozenset[int], ...]


def build_program(model: Model, groups: Sequence[Group], make_step: MakeStep) -> PlanProgram:
    """Lays out the groups of the main graph and of all nested branches, one after another."""
    builder = _ProgramBuilder(model, make_step)
    builder.lay_out(groups, _GraphScope(builder.number_client_values()))
    waits_for = steps_to_wait_for(builder.program)
    lifespans = builder.lifespans()
    if waits_for:
        # The order of the program says nothing about the time: no two values may share memory.
        lifespans = [replace(each, first=0, last=len(builder.program)) for each in lifespans]
    return PlanProgram(
        steps=tuple(builder.program),
        values=tuple(builder.values),
        arena=plan_arena(lifespans),
        waits_for=waits_for,
    )


class _GraphScope:
    """One instance of a graph in the program.

    Args:
        values: numbers of the values of its operands, by operand.
        loops: start positions of the enclosing loops, outermost first.
    """

    def __init__(self, values: dict[int, int], loops: tuple[int, ...] = ()) -> None:
        self.values = values
        self.loops = loops


class _ProgramBuilder:
    """Lays out groups as a program and records when its values are used.

    Attributes:
        program: the steps and jumps so far.
        values: the values so far, by number.
    """

    def __init__(self, model: Model, make_step: MakeStep) -> None:
        self._model = model
        self._make_step = make_step
        self.program: list[PlanStep] = []
        self.values: list[PlanValue] = []
        #: The loops that enclose the creation of each value.
        self._loops_of_values: list[tuple[int, ...]] = []
        #: The positions of the uses of each value, each with the loops that enclose it.
        self._uses: list[list[tuple[int, tuple[int, ...]]]] = []
        #: The position of the last step of each loop, by that of its start.
        self._ends: dict[int, int] = {}

    def number_client_values(self) -> dict[int, int]:
        """Creates the values for the inputs and outputs of the model."""
        graph = self._model.main
        numbers = {}
        for position, index in enumerate(graph.inputs):
            value = _value(MAIN, index, graph.operands)
            numbers[index] = self._add(replace(value, client_input=position), ())
        for position, index in enumerate(graph.outputs):
            value = _value(MAIN, index, graph.operands)
            numbers[index] = self._add(replace(value, client_output=position), ())
        return numbers

    def lay_out(self, groups: Sequence[Group], scope: _GraphScope) -> None:
        for group in groups:
            if isinstance(group, StepGroup):
                self._lay_out_step(group, scope)
            elif isinstance(group, IfGroup):
                self._lay_out_if(group, scope)
            else:
                self._lay_out_while(group, scope)

    def _lay_out_step(self, group: StepGroup, scope: _GraphScope) -> None:
        step = self._make_step(group)
        reads = tuple(self._value_of(group.graph, index, scope) for index in step.inputs)
        writes = tuple(self._value_of(group.graph, index, scope) for index in step.outputs)
        for number in (*reads, *writes):
            self._use(number, scope)
        self.program.append(replace(step, reads=reads, writes=writes))

    def _lay_out_if(self, group: IfGroup, scope: _GraphScope) -> None:
        graph = graph_of(self._model, group.graph)
        operation = graph.operations[group.operation]
        branches = referenced_graphs(graph, operation)
        arguments = [
            self._value_of(group.graph, index, scope)
            for index in operation.inputs
            if graph.operands[index].subgraph is None
        ]
        condition, inputs = arguments[0], arguments[1:]
        outputs = [self._value_of(group.graph, index, scope) for index in operation.outputs]
        for number in (condition, *inputs, *outputs):
            self._use(number, scope)
        start = self._reserve()
        self._lay_out_branch(branches[0], group.then_groups, inputs, outputs, scope.loops)
        end_of_then = self._reserve()
        self._lay_out_branch(branches[1], group.else_groups, inputs, outputs, scope.loops)
        self.program[start] = IfStep(
            graph=group.graph,
            operation=operation_number(graph, group.operation),
            condition=condition,
            else_position=end_of_then + 1,
        )
        self.program[end_of_then] = GotoStep(position=len(self.program))

    def _lay_out_while(self, group: WhileGroup, scope: _GraphScope) -> None:
        graph = graph_of(self._model, group.graph)
        operation = graph.operations[group.operation]
        condition_graph, body_graph = referenced_graphs(graph, operation)
        body = graph_of(self._model, body_graph)
        inputs = [
            self._value_of(group.graph, index, scope)
            for index in operation.inputs
            if graph.operands[index].subgraph is None
        ]
        outputs = [self._value_of(group.graph, index, scope) for index in operation.outputs]
        start = self._reserve()
        loops = (*scope.loops, start)
        initial = inputs[: len(body.outputs)]
        carried, results, spares = [], [], []
        for inside in body.outputs:
            value = _value(body_graph, inside, body.operands)
            carried.append(self._add(replace(value, is_bound=True), scope.loops))
            results.append(self._add(value, scope.loops))
            spares.append(self._add(value, scope.loops))
        inside_values = [*carried, *inputs[len(carried) :]]
        condition_scope = self._lay_out_branch(
            condition_graph, group.condition_groups, inside_values, [], loops
        )
        inner = graph_of(self._model, condition_graph)
        condition = self._value_of(condition_graph, inner.outputs[0], condition_scope)
        self._use(condition, condition_scope)
        end_of_condition = self._reserve()
        self._lay_out_branch(body_graph, group.body_groups, inside_values, results, loops)
        end_of_body = self._reserve()
        self.program[start] = WhileStep(
            graph=group.graph,
            operation=operation_number(graph, group.operation),
            condition=condition,
            initial=tuple(initial),
            carried=tuple(carried),
            results=tuple(results),
            spares=tuple(spares),
            outputs=tuple(outputs),
            body_position=end_of_condition + 1,
            end_position=end_of_body + 1,
        )
        self.program[end_of_condition] = GotoStep(position=start)
        self.program[end_of_body] = GotoStep(position=start)
        self._ends[start] = end_of_body
        for number in (*inputs, *outputs, *results, *spares):
            self._uses[number] += [(start, scope.loops), (end_of_body, scope.loops)]

    def _lay_out_branch(
        self,
        number: int,
        groups: Sequence[Group],
        inputs: Sequence[int],
        outputs: Sequence[int],
        loops: tuple[int, ...],
    ) -> _GraphScope:
        """Lays out a graph with the given values as its inputs and outputs.

        If no outputs are given, values are created for them.
        """
        graph = graph_of(self._model, number)
        values = dict(zip(graph.inputs, inputs, strict=True))
        if outputs:
            values.update(zip(graph.outputs, outputs, strict=True))
        scope = _GraphScope(values, loops)
        self.lay_out(groups, scope)
        return scope

    def _reserve(self) -> int:
        """Reserves the position of a jump, to be filled in when its target is known."""
        self.program.append(GotoStep(position=-1))
        return len(self.program) - 1

    def _value_of(self, graph: int, index: int, scope: _GraphScope) -> int:
        if index not in scope.values:
            scope.values[index] = self._add(self._inner_value(graph, index), scope.loops)
        return scope.values[index]

    def _inner_value(self, graph: int, index: int) -> PlanValue:
        operands = graph_of(self._model, graph).operands
        operand, value = operands[index], _value(graph, index, operands)
        if operand.lifetime is Lifetime.NO_VALUE:
            return replace(value, is_omitted=True)
        if operand.lifetime.is_constant:
            return replace(value, constant=_constant(self._model, operand))
        return value

    def _add(self, value: PlanValue, loops: tuple[int, ...]) -> int:
        self.values.append(value)
        self._loops_of_values.append(loops)
        self._uses.append([])
        return len(self.values) - 1

    def _use(self, number: int, scope: _GraphScope) -> None:
        self._uses[number].append((len(self.program), scope.loops))

    def lifespans(self) -> list[Lifespan]:
        """Returns the lifespans of all temporaries of known size.

        A value that is created outside of a loop and used inside it lasts for the whole loop,
        because the next iteration reads it again.
        """
        found = []
        for number, value in enumerate(self.values):
            if not value.is_temporary or value.size_bytes is None or not self._uses[number]:
                continue
            depth = len(self._loops_of_values[number])
            first, last = len(self.program), 0
            for position, loops in self._uses[number]:
                outermost = loops[depth] if len(loops) > depth else None
                first = min(first, position if outermost is None else outermost)
                last = max(last, position if outermost is None else self._ends[outermost])
            found.append(Lifespan(value=number, size_bytes=value.size_bytes, first=first, last=last))
        return found


def _value(graph: int, index: int, operands: Sequence[Operand]) -> PlanValue:
    operand, number = operands[index], operand_number(operands, index)
    return PlanValue(graph=graph, operand=number, type=operand.type, dimensions=operand.dimensions)


def _constant(model: Model, operand: Operand) -> ConstantBytes:
    location = operand.location
    if location is None:
        return ConstantBytes(memory=HostMemory(operand.value), offset=0, length=len(operand.value))
    return ConstantBytes(memory=model.pools[location.pool], offset=location.offset, length=location.length)
