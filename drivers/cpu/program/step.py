"""Assembles a step from the kernels of its blocks and the instructions between them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    BasicBlock,
    LengthUpdate,
    StructuredModel,
    Update,
    elements_of,
)
from neurald.drivers.compiler.frontend.operand_values import scalar_of, stored_elements
from neurald.drivers.compiler.ir.builder import Unsupported
from neurald.drivers.compiler.ir.complex_numbers import value_shape
from neurald.drivers.compiler.ir.expression import Expression, axis, clamp, constant, index, load
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate, has_extents, is_zero
from neurald.drivers.compiler.ir.extents.scope import ExtentScope, Guard
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.string_references import StringConstants
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.program.block_model import BlockModel, BlockModels
from neurald.drivers.cpu.program.copy_coalescing import coalesce_copies, without_own_copies
from neurald.drivers.cpu.program.linear_program import LinearInstruction, Linearization
from neurald.drivers.cpu.program.sizing import ElementOf, SizedCall, SizedCopy, Sizing
from neurald.drivers.cpu.target.executable import (
    WORD_BYTES,
    BandedCalls,
    BoundedPort,
    Instruction,
    LengthWords,
    Opcode,
    argument_offset,
    record_offset,
)
from neurald.drivers.cpu.target.routine import Routine
from neurald.hal.errors import BadData
from neurald.hal.records import replace

if TYPE_CHECKING:
    from neurald.drivers.compiler.memory.buffer_assignment import BufferAssignment


class Names(Protocol):
    """Names a kernel's operations in messages."""

    def positions(self, operations: Sequence[int]) -> tuple[int, ...]:
        """Returns the positions of operations in the model."""
        ...

    def text(self, kernel: Kernel) -> str:
        """Names the operations of a kernel."""
        ...

    def failed(self, kernel: Kernel, error: Exception) -> Exception:
        """Returns the error for a kernel that cannot be compiled."""
        ...


class KernelRoutine(Struct, frozen=True, kw_only=True):
    """A kernel of a step and its routine.

    Attributes:
        reasons: the reasons for which a call that sets lengths refuses.
    """

    kernel: Kernel
    routine: Routine
    names: Names
    reasons: tuple[str, ...] = ()


class CompiledBlock(Struct, frozen=True, kw_only=True):
    """The kernels of a block. The inputs and outputs of its graph are in the order of its model.

    Attributes:
        guards: must hold for the lengths with which the kernels run.
    """

    graph: FusedGraph
    calls: tuple[KernelRoutine, ...]
    guards: tuple[Guard, ...] = ()


class Step(Struct, frozen=True, kw_only=True):
    """A step before its values have locations.

    Attributes:
        graph: the kernels of all blocks, with variables as the owners of their inputs and outputs.
        calls: the kernels in the order of the program.
        uses: the values that are in use at each position of the program.
        program: the instructions of a step with control flow.
        loops: number of loops.
        bounded: outputs whose shapes are upper bounds.
        repeated: numbers of the calls that are in a loop.
        sizings: the calls that set lengths, by their numbers.
        members: variables that share memory, by their owner, see `SharedVariables`.
        banded: see `Executable.banded`.
    """

    graph: FusedGraph
    calls: tuple[KernelRoutine, ...]
    uses: Sequence[Sequence[Value]]
    program: tuple[LinearInstruction, ...] = ()
    loops: int = 0
    bounded: tuple[BoundedPort, ...] = ()
    repeated: frozenset[int] = frozenset()
    sizings: Mapping[int, Sizing] = field(default_factory=dict)
    members: Mapping[Value, tuple[Value, ...]] = field(default_factory=dict)
    banded: tuple[BandedCalls, ...] = ()

    @property
    def accessed(self) -> list[tuple[Value, ...]]:
        """The values that each instruction other than a call reads or writes, targets first."""
        return [() if each.opcode is Opcode.CALL else (*each.writes, *each.reads) for each in self.program]

    def instructions(self, assignment: "BufferAssignment") -> tuple[Instruction, ...]:
        """Returns the instructions for the locations of the values."""
        return tuple(
            Instruction(
                opcode=each.opcode,
                number=estimate(each.reads[0].size_bytes) if each.opcode is Opcode.COPY else each.number,
                target=each.target,
                locations=assignment.of(accessed),
                operations=each.origins,
            )
            for each, accessed in zip(self.program, self.accessed, strict=True)
        )

    def with_sizings(self, scope: ExtentScope) -> "Step":
        """Returns the step with the routines of the calls that set lengths; see `Sizing`."""
        if not self.sizings:
            return self
        records = {each.number: n for n, each in enumerate(self.program) if each.opcode is Opcode.CALL}
        counts = [each.routine.pointers for each in self.calls]
        firsts = [*accumulate(counts, initial=0)]
        end = argument_offset(len(self.program), firsts[-1] + sum(map(len, self.accessed)))
        words = LengthWords(len(scope.symbols), end)
        extents = [*accumulate((len(each.routine.extents) for each in self.calls), initial=words.count)]
        calls = list(self.calls)

        def sized(number: int) -> SizedCall:
            routine = self.calls[number].routine
            cells: list[tuple[int, Value, int | Extent]] = []
            for position, value in enumerate(routine.arguments):
                start = self.graph.starts.get(value, 0) * value.type.size_bytes
                if isinstance(start, Extent):
                    cell = argument_offset(len(self.program), firsts[number] + position)
                    cells.append((cell, self._owner(value), start))
            return SizedCall(
                kernel=self.calls[number].kernel,
                routine=routine,
                record=record_offset(records[number]),
                extents=end + WORD_BYTES * extents[number],
                cells=tuple(cells),
            )

        for number, sizing in self.sizings.items():
            copies: list[SizedCopy] = []
            for position in range(records[number] + 1, len(self.program)):
                each = self.program[position]
                if each.opcode is not Opcode.COPY:
                    break
                copies.append(
                    SizedCopy(
                        record=record_offset(position),
                        size_bytes=each.reads[0].size_bytes,
                        start=0 if each.base is None else each.base.size_bytes,
                    )
                )
            owned = replace(sizing, owners=tuple(map(self._owner, sizing.owners)))
            routine, reasons = owned.routine(scope, words, [*map(sized, sizing.calls)], copies)
            calls[number] = replace(calls[number], routine=routine, reasons=reasons)
        return replace(self, calls=tuple(calls))

    def _owner(self, value: Value) -> Value:
        return self.graph.aliases.get(value, value)


class StepBuilder:
    """Builds the step of a structured model.

    Args:
        structured: the model.
        block: compiles a block from its model.
        update: compiles the kernel of an update, and returns what must hold for the lengths.
        strings: numbers constant strings.
    """

    def __init__(
        self,
        structured: StructuredModel,
        block: Callable[[BasicBlock, BlockModel], CompiledBlock],
        update: Callable[[StructuredModel, Update, Kernel], tuple[KernelRoutine, Sequence[Guard]]],
        strings: StringConstants,
    ) -> None:
        self._structured = structured
        self._compile_block, self._compile_update = block, update
        self._strings = strings
        self._models = BlockModels(structured)
        self._variables: dict[int, Value] = {}
        #: The variables, and constants that instructions read.
        self._owners: set[Value] = set()
        self._aliases: dict[Value, Value] = {}
        self._starts: dict[Value, int] = {}
        self._kernels: list[Kernel] = []
        self._calls: list[KernelRoutine] = []
        self._sizings: dict[int, Sizing] = {}

    def step(self) -> Step:
        """Compiles everything and builds the step."""
        main = self._structured.model.main
        linear = Linearization(self._variable, self._instructions, self._lengths)
        linear.add(self._structured.items)
        if self._structured.has_changing_lengths and not self._sizings:
            # Nothing depends on the lengths. A step with one such call is still sized as one.
            linear.instructions.append(self._lengths(LengthUpdate()))
        inputs, outputs = ([self._variable(each) for each in ends] for ends in (main.inputs, main.outputs))
        shared = coalesce_copies(linear.instructions, inputs, outputs)
        aliases = {value: shared.owners.get(owner, owner) for value, owner in self._aliases.items()}
        aliases |= {value: owner for value, owner in shared.owners.items() if owner is not value}
        graph = FusedGraph(
            kernels=tuple(self._kernels),
            aliases=aliases,
            inputs=tuple(inputs),
            outputs=tuple(shared.owners[each] for each in outputs),
            starts=self._starts,
        )
        program, moved = without_own_copies(linear.instructions, shared.owners)
        uses = [
            [*self._calls[each.number].routine.arguments]
            if each.opcode is Opcode.CALL
            else [*each.writes, *each.reads]
            for each in program
        ] or [[]]
        for owner, (begin, end) in shared.spans.items():
            # Copies that are left out may be at the ends.
            uses[min(moved[begin], len(uses) - 1)].append(owner)
            uses[max(moved[end + 1] - 1, 0)].append(owner)
        return Step(
            graph=graph,
            calls=tuple(self._calls),
            uses=uses,
            program=program,
            loops=linear.loops,
            repeated=_repeated(linear.instructions),
            sizings=self._sizings,
            members=shared.members,
        )

    def _variable(self, operand: int) -> Value:
        """Returns the variable of an operand of the flat graph, or its constant."""
        if operand not in self._variables:
            self._variables[operand] = self._value(operand)
            self._owners.add(self._variables[operand])
        return self._variables[operand]

    def _value(self, index: int) -> Value:
        """Returns a new value for an operand of the flat graph.

        Raises:
            BadData: kernels do not support its type.
        """
        model = self._structured.model
        operand = model.main.operands[index]
        constant = model.constant(operand)
        try:
            kind = scalar_of(operand.type)
        except Unsupported as error:
            raise BadData(str(error)) from None
        return Value(
            value_shape(operand.type, operand.dimensions or ()),
            kind,
            None if constant is None else stored_elements(operand.type, constant, self._strings),
            operand.name or f"operand {index}",
        )

    def _instructions(self, item: BasicBlock | Update) -> list[LinearInstruction]:
        return self._block(item) if isinstance(item, BasicBlock) else self._update(item)

    def _block(self, block: BasicBlock) -> list[LinearInstruction]:
        part = self._models.of(block)
        if not part.outputs:
            return []
        compiled = self._compile_block(block, part)
        graph = compiled.graph
        ends = {
            **dict(zip(graph.inputs, part.inputs, strict=True)),
            **dict(zip(graph.outputs, part.outputs, strict=True)),
        }
        variables = {value: self._variable(operand) for value, operand in ends.items()}
        self._aliases |= variables
        self._aliases |= {value: variables.get(owner, owner) for value, owner in graph.aliases.items()}
        self._starts |= graph.starts
        self._kernels += graph.kernels
        written: set[Value] = set()
        instructions = [self._called(call, written) for call in compiled.calls]
        return self._sized(instructions, compiled.guards)

    def _sized(
        self, instructions: list[LinearInstruction], guards: Sequence[Guard]
    ) -> list[LinearInstruction]:
        """Adds a call that sets the sizes of kernels before them, if they depend on lengths."""
        numbers = [each.number for each in instructions if self._has_lengths(self._calls[each.number])]
        if not numbers and not guards:
            return instructions
        parts = (value for number in numbers for value in self._calls[number].routine.arguments)
        owners = {
            self._aliases.get(value, value) for value in parts if isinstance(self._starts.get(value), Extent)
        }
        sizing = Sizing(guards=tuple(guards), calls=numbers, owners=tuple(owners))
        return [self._called_sizing(sizing), *instructions]

    def _has_lengths(self, call: KernelRoutine) -> bool:
        routine, shape = call.routine, call.kernel.shape
        return bool(routine.extents) or has_extents(
            (routine.work_items, *shape, *(self._starts.get(each) for each in routine.arguments))
        )

    def _lengths(self, update: LengthUpdate) -> LinearInstruction:
        """Returns the call that sets lengths."""
        return self._called_sizing(
            Sizing(
                lengths=update.lengths,
                elements={
                    (operand, number): ElementOf(self._variable(operand), number)
                    for operand, number in elements_of(update)
                },
                stores=tuple((self._variable(operand), values) for operand, values in update.stores),
                guards=update.guards,
            )
        )

    def _called_sizing(self, sizing: Sizing) -> LinearInstruction:
        number = len(self._calls)
        self._sizings[number] = sizing
        self._calls.append(KernelRoutine(kernel=_NOTHING, routine=sizing.placeholder(), names=_NO_NAMES))
        return LinearInstruction(
            opcode=Opcode.CALL,
            number=number,
            reads=tuple(each for each in sizing.read if each.constant is None),
            writes=sizing.written,
        )

    def _called(self, call: KernelRoutine, written: set[Value]) -> LinearInstruction:
        """Returns the call of a kernel.

        Args:
            call: the kernel.
            written: the variables that earlier kernels of its block have written.
        """
        known = self._owners
        output, *read = (self._aliases.get(each, each) for each in call.routine.arguments)
        writes = (output,) if output in known else ()
        is_partial = output in written
        written.update(writes)
        self._calls.append(call)
        return LinearInstruction(
            opcode=Opcode.CALL,
            number=len(self._calls) - 1,
            reads=tuple(dict.fromkeys(each for each in read if each in known and each.constant is None)),
            writes=writes,
            is_partial=is_partial,
        )

    def _update(self, update: Update) -> list[LinearInstruction]:
        kernel = self._update_kernel(update)
        self._kernels.append(kernel)
        call, guards = self._compile_update(self._structured, update, kernel)
        return self._sized([self._called(call, {self._variable(update.target)})], guards)

    def _update_kernel(self, update: Update) -> Kernel:
        """Returns the kernel that stores a part in a variable that has all other elements."""
        target, part, start = (self._variable(each) for each in (update.target, update.part, update.start))
        stored = Value(part.shape, target.type, name=target.name)
        self._aliases[stored] = target
        axes = tuple(axis(length, f"i{d}") for d, length in enumerate(part.shape))
        position: list[Expression] = []
        requirements: list[tuple[Expression, str]] = []
        for d, (along, whole) in enumerate(zip(axes, target.shape, strict=True)):
            last = whole - along.extent
            begin = load(start, (index(d),))
            position.append(along + (0 if is_zero(last) else clamp(begin.to(Scalar.INDEX), 0, last)))
            if update.message:
                requirements.append(((begin >= 0) & (begin <= last), update.message))
        return Kernel(
            output=stored,
            axes=axes,
            body=load(part, axes),
            requirements=tuple(requirements),
            operations=(0,),
            output_offset=linearize(position, target.shape),
        )


class _NoNames:
    """Implements `Names` for what implements no operation."""

    def positions(self, operations: Sequence[int]) -> tuple[int, ...]:
        return ()

    def text(self, kernel: Kernel) -> str:
        return "lengths"

    def failed(self, kernel: Kernel, error: Exception) -> Exception:
        return error


_NO_NAMES = _NoNames()
#: The kernel of calls that set lengths.
_NOTHING = Kernel(output=Value((), Scalar.INT32), axes=(), body=constant(0, Scalar.INT32))


def _repeated(program: Sequence[LinearInstruction]) -> frozenset[int]:
    """Returns the numbers of the calls in loops, which end with a jump back."""
    return frozenset(
        each.number
        for end, jump in enumerate(program)
        if jump.opcode is Opcode.JUMP and jump.target <= end
        for each in program[jump.target : end]
        if each.opcode is Opcode.CALL
    )
