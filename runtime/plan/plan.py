"""Defines the plan of a compilation: which device runs which operations, and in which order.

A plan has either one step, which is the application's own model (`SimpleBody`), or a program
(`CompoundBody`), which is a flat list of steps and jumps. Steps exchange operands as *values*. A
value represents all operands that are the same inside and outside of a branch. For example, the
input of a branch and the operand that the IF passes to it are one value, so that nothing is copied
at the boundary. An IF is laid out as {If, then steps, Goto, else steps}, and a WHILE as {While,
condition steps, Goto, body steps, Goto}; both Gotos of a WHILE lead back to it.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from neurald.hal.api_arguments import integer
from neurald.hal.device import Device, PreparedModel
from neurald.hal.errors import BadData
from neurald.hal.memory.alignment import ALIGNMENT
from neurald.hal.memory.pool import Memory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import Dimensions, FeatureLevel, OperandType, value_size
from neurald.hal.unpicklable import Unpicklable
from neurald.hal.wording import counted
from neurald.runtime.devices.driver_faults import feature_level
from neurald.runtime.model.branches import MAIN

if TYPE_CHECKING:
    from neurald.hal.memory.arena_planner import MemoryPlan  # Plans of one step have none.


class ExecutionStep(Struct, frozen=True, kw_only=True, eq=False):
    """Operations that one device runs as one model.

    Attributes:
        device: the device that runs them.
        graph: number of the graph that contains them; see `neurald.runtime.partitioning.groups`.
        operations: the operations in execution order, each as its position in the application's
            order.
        model: the model that the device prepared.
        prepared_model: the prepared model that the plan was made with, of the device or, if it is a
            first tier, of the CPU device; then of what has replaced the first tier.
            `neurald.runtime.execution.recovery.recovering_step.RecoveringStep` has the current one.
        is_first_tier: True if the device compiles the model meanwhile.
        inputs, outputs: for each input and output of `model`, the index of the graph's operand.
        reads, writes: for each input and output of `model`, the number of the plan's value; empty
            in a plan of one step.
        input_operands, output_operands: the inputs and outputs of `model`.
    """

    device: Device
    graph: int = MAIN
    operations: tuple[int, ...]
    model: Model
    prepared_model: PreparedModel
    is_first_tier: bool = False
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    input_operands: tuple[Operand, ...] = ()
    output_operands: tuple[Operand, ...] = ()

    def __post_init__(self) -> None:
        outline = self.model.outline
        force_setattr(self, "input_operands", outline.input_operands)
        force_setattr(self, "output_operands", outline.output_operands)


class IfStep(Struct, frozen=True, kw_only=True):
    """Continues at the next position if the condition is true, otherwise at `else_position`.

    Attributes:
        graph: number of the graph that contains the IF.
        operation: position of the IF in the application's order.
        condition: number of the condition's value.
        else_position: start of the else branch in the program.
    """

    graph: int
    operation: int
    condition: int
    else_position: int

    def __str__(self) -> str:
        return _operation_name(self.graph, self.operation, "IF")


def _operation_name(graph: int, number: int, kind: str) -> str:
    """Formats the name of an interpreted operation for messages."""
    return f"graph {graph} operation {number} {kind}" if graph else f"operation {number} {kind}"


class WhileStep(Struct, frozen=True, kw_only=True):
    """Starts a loop. Each of the loop's Gotos leads back here.

    The condition's steps start at the next position. Condition and body read the carried values.
    The body writes the new ones to different memory, so that an iteration never overwrites its own
    input. All values are given by number.

    Attributes:
        graph: number of the graph that contains the WHILE.
        operation: position of the WHILE in the application's order.
        condition: the value that decides whether there is another iteration.
        initial: the initial values of the loop.
        carried: for each initial value, the value that the steps of the loop read.
        results: for each carried value, the value that the body writes.
        spares: for each carried value, the second buffer for its results.
        outputs: receive the final values of the first carried values.
        body_position: start of the body's steps.
        end_position: where execution continues after the loop.
    """

    graph: int
    operation: int
    condition: int
    initial: tuple[int, ...]
    carried: tuple[int, ...]
    results: tuple[int, ...]
    spares: tuple[int, ...]
    outputs: tuple[int, ...]
    body_position: int
    end_position: int

    def __str__(self) -> str:
        return _operation_name(self.graph, self.operation, "WHILE")


class GotoStep(Struct, frozen=True, kw_only=True):
    """Continues at `position`."""

    position: int


PlanStep: TypeAlias = ExecutionStep | IfStep | WhileStep | GotoStep


class ConstantBytes(Struct, frozen=True, kw_only=True):
    """Bytes of a model constant that a plan passes to a step as an input."""

    memory: Memory
    offset: int
    length: int


class PlanValue(Struct, frozen=True, kw_only=True):
    """An operand that steps of a plan exchange, or share with the client.

    Attributes:
        graph: number of the graph that contains the outermost operand that it represents.
        operand: index of that operand, as the application numbered it.
        type, dimensions: as declared by that operand.
        client_input, client_output: index of the model's input or output that it is; at most one of
            them is set.
        constant: its bytes, if it is a constant.
        is_omitted: whether it is an optional argument that the model omits.
        is_bound: whether a loop assigns its storage at run time.
    """

    graph: int
    operand: int
    type: OperandType
    dimensions: Dimensions
    client_input: int | None = None
    client_output: int | None = None
    constant: ConstantBytes | None = None
    is_omitted: bool = False
    is_bound: bool = False

    @property
    def is_temporary(self) -> bool:
        """True if the plan must allocate memory for it."""
        return (
            self.client_input is None
            and self.client_output is None
            and self.constant is None
            and not self.is_omitted
            and not self.is_bound
        )

    @property
    def size_bytes(self) -> int | None:
        """The size of the value; None if it is unknown before the plan runs."""
        return value_size(self.type, self.dimensions)

    def __str__(self) -> str:
        return f"operand {self.operand}" + (f" of graph {self.graph}" if self.graph else "")


class SimpleBody(Struct, frozen=True, kw_only=True, eq=False):
    """A plan of one step, which is the application's own model."""

    step: ExecutionStep

    @property
    def steps(self) -> tuple[ExecutionStep, ...]:
        """The only step."""
        return (self.step,)


class CompoundBody(Struct, frozen=True, kw_only=True, eq=False):
    """A plan of several steps.

    Attributes:
        program: steps and jumps; execution ends after the last position.
        values: the values that the steps exchange, by number.
        arena: the layout of the memory for temporaries of known size.
        shares_memory: True if a device of another process takes part, so that temporaries must be
            in shared memory.
        shared: numbers of the client's values that are copied to shared memory; see
            `neurald.runtime.plan.shared_values`.
        waits_for: for each step, the positions of those that it waits for; empty if the steps run
            one after another. See `neurald.runtime.plan.step_order`.
        steps: the steps of the program, without jumps.
    """

    program: tuple[PlanStep, ...]
    values: tuple[PlanValue, ...]
    arena: "MemoryPlan"
    shares_memory: bool
    shared: frozenset[int] = frozenset()
    waits_for: tuple[frozenset[int], ...] = ()
    steps: tuple[ExecutionStep, ...] = ()

    def __post_init__(self) -> None:
        steps = tuple(step for step in self.program if isinstance(step, ExecutionStep))
        force_setattr(self, "steps", steps)


StepRole: TypeAlias = tuple[ExecutionStep, int]


class MemoryPreference(Struct, frozen=True, kw_only=True):
    """The memory layout that a device prefers.

    Attributes:
        alignment: the start is a multiple of this number of bytes.
        padding: the size is a multiple of this number of bytes.
    """

    alignment: int = 1
    padding: int = 1


class ExecutionPlan(Unpicklable):
    """The steps that run a model, and the roles of its inputs and outputs in them.

    Attributes:
        model: the application's model.
        body: the steps, and the values between them.
    """

    instead_of_pickling = "nd.save_plan writes it to a file"

    def __init__(self, model: Model, body: SimpleBody | CompoundBody) -> None:
        self.model = model
        self.body = body
        self._read, self._written, self._read_back = _roles(model, body)

    def __repr__(self) -> str:
        return f"<ExecutionPlan of {counted(len(self.steps), 'step')}>"

    @property
    def steps(self) -> tuple[ExecutionStep, ...]:
        """The steps that devices run, in program order."""
        return self.body.steps

    @property
    def is_simple(self) -> bool:
        """True if one device runs the application's own model."""
        return isinstance(self.body, SimpleBody)

    @property
    def temporary_bytes(self) -> int:
        """Size of the arena: the memory for operands of known size between the steps."""
        return 0 if isinstance(self.body, SimpleBody) else self.body.arena.size_bytes

    def roles_of_input(self, index: int) -> tuple[StepRole, ...]:
        """Returns the steps that read a model input, each with the index of its own input.

        Raises:
            BadData: there is no such input.
        """
        _require_index(index, len(self.model.inputs), "input")
        return self._read.get(index, ())

    def roles_of_output(self, index: int) -> tuple[StepRole, ...]:
        """Returns the steps that write a model output, each with the index of its own output.

        No step writes the outputs of an interpreted WHILE, which are copied when the loop ends.

        Raises:
            BadData: there is no such output.
        """
        _require_index(index, len(self.model.outputs), "output")
        return self._written.get(index, ())

    def reading_roles_of_output(self, index: int) -> tuple[StepRole, ...]:
        """Returns the steps that read a model output written by an earlier step.

        Raises:
            BadData: there is no such output.
        """
        _require_index(index, len(self.model.outputs), "output")
        return self._read_back.get(index, ())

    def preferred_memory_of_input(self, index: int) -> MemoryPreference:
        """Returns the strictest preference of all steps that read an input.

        Raises:
            BadData: there is no such input.
        """
        return _strictest(self.roles_of_input(index))

    def preferred_memory_of_output(self, index: int) -> MemoryPreference:
        """Returns the strictest preference of all steps that read or write an output.

        Raises:
            BadData: there is no such output.
        """
        return _strictest((*self.roles_of_output(index), *self.reading_roles_of_output(index)))


def memory_preference(device: Device) -> MemoryPreference:
    """Returns the memory layout that a device prefers.

    Drivers below feature level 5 never access bytes beyond an argument and need no padding.
    """
    padding = ALIGNMENT if feature_level(device) >= FeatureLevel.LEVEL_5 else 1
    return MemoryPreference(alignment=ALIGNMENT, padding=padding)


def _strictest(roles: Iterable[StepRole]) -> MemoryPreference:
    preferences = [memory_preference(step.device) for step, _ in roles]
    return MemoryPreference(
        alignment=max((preference.alignment for preference in preferences), default=1),
        padding=max((preference.padding for preference in preferences), default=1),
    )


def _require_index(index: int, count: int, what: str) -> None:
    if not 0 <= integer(index, f"the index of the {what}") < count:
        raise BadData(f"there is no {what} {index}; the model has {counted(count, what)}")


_Roles: TypeAlias = Mapping[int, tuple[StepRole, ...]]


def _roles(model: Model, body: SimpleBody | CompoundBody) -> tuple[_Roles, _Roles, _Roles]:
    """Returns the steps that read each input, write each output, and read each output."""
    if isinstance(body, SimpleBody):
        return (
            {n: ((body.step, n),) for n in range(len(model.outline.inputs))},
            {n: ((body.step, n),) for n in range(len(model.outline.outputs))},
            MappingProxyType({}),
        )
    starts = _initial_values(body.program)
    read: dict[int, list[StepRole]] = {}
    written: dict[int, list[StepRole]] = {}
    read_back: dict[int, list[StepRole]] = {}
    for step in body.steps:
        for index, number in enumerate(step.reads):
            for origin in _origins(number, starts):
                value = body.values[origin]
                if value.client_input is not None:
                    read.setdefault(value.client_input, []).append((step, index))
                if value.client_output is not None:
                    read_back.setdefault(value.client_output, []).append((step, index))
        for index, number in enumerate(step.writes):
            output = body.values[number].client_output
            if output is not None:
                written.setdefault(output, []).append((step, index))
    return _frozen(read), _frozen(written), _frozen(read_back)


def _frozen(roles: Mapping[int, Sequence[StepRole]]) -> _Roles:
    return {index: tuple(found) for index, found in roles.items()}


def _initial_values(program: Sequence[PlanStep]) -> dict[int, int]:
    """Maps each carried value of a loop to its initial value."""
    return {
        carried: initial
        for step in program
        if isinstance(step, WhileStep)
        for carried, initial in zip(step.carried, step.initial, strict=True)
    }


def _origins(number: int, starts: Mapping[int, int]) -> Iterable[int]:
    """Yields a value, and the initial values that it has in the first iterations of loops."""
    yield number
    while number in starts:
        number = starts[number]
        yield number
