"""Turns a structured model whose operations are bound to kernels into instructions.

Every value that kernels read or write is a variable of the program: which of them are in use at the
same time follows from the instructions, in loops as well.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    Append,
    BasicBlock,
    LengthUpdate,
    StructuredModel,
    Update,
    each_item,
)
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.first_tier.binding.binder import Binder
from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import PlacedPart, part_moving_call
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.program.copy_coalescing import coalesce_copies, without_own_copies
from neurald.drivers.cpu.program.linear_program import LinearInstruction, Linearization
from neurald.drivers.cpu.target.executable import Opcode
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import byte_size

#: What a variable holds.
Key = int | BoundTemporary


class ProgramInstruction(Struct, frozen=True, kw_only=True):
    """An instruction whose variables have no locations yet.

    Attributes:
        opcode, target: see `neurald.drivers.cpu.target.executable.Instruction`.
        number: the number of the kernel for CALL, of bytes for COPY, and of the loop otherwise.
        accessed: what an instruction other than a call reads or writes, the target first.
        operations: see `neurald.drivers.cpu.target.executable.Instruction`.
    """

    opcode: Opcode
    number: int
    target: int
    accessed: tuple[Key, ...]
    operations: tuple[int, ...]


class BoundProgram(Struct, frozen=True, kw_only=True):
    """The instructions of a model that is bound to kernels.

    Attributes:
        calls: the kernels, each with the position of its operation in the original main graph.
        instructions: none if the kernels just run one after another.
        loops: number of loops.
        owners: what has the memory of a variable; itself unless variables share memory.
        uses: the first and last position at which each owner is in use.
    """

    calls: Sequence[tuple[int, BoundCall]]
    instructions: tuple[ProgramInstruction, ...]
    loops: int
    owners: Mapping[Key, Key]
    uses: Mapping[Key, tuple[int, int]]


def bound_program(structured: StructuredModel, binder: Binder) -> BoundProgram:
    """Binds a structured model.

    Args:
        structured: the model; no lengths change while it runs.
        binder: the binder of its flat graph.

    Raises:
        NotBound: an operation has no kernel.
    """
    return _Program(structured, binder).result()


class _Program:
    """The variables and calls of a program."""

    def __init__(self, structured: StructuredModel, binder: Binder) -> None:
        if structured.has_changing_lengths or structured.values:
            raise NotBound("lengths change while the model runs")
        self._structured, self._binder = structured, binder
        self._operands: Final = binder.graph.operands
        self._values: dict[Key, Value] = {}
        self._keys: dict[Value, Key] = {}
        self._calls: list[tuple[int, BoundCall]] = []
        self._bound = binder.bound(
            [
                position
                for item in each_item(structured.items)
                if isinstance(item, BasicBlock)
                for position in item.operations
            ]
        )

    def result(self) -> BoundProgram:
        """See `bound_program`."""
        self._check()
        main = self._structured.model.main
        linear = Linearization(self._variable, self._called, self._lengths)
        linear.add(self._structured.items)
        inputs, outputs = ([self._variable(each) for each in ends] for ends in (main.inputs, main.outputs))
        shared = coalesce_copies(linear.instructions, inputs, outputs)
        program, moved = without_own_copies(linear.instructions, shared.owners)
        end = max(len(program) - 1, 0)
        return BoundProgram(
            calls=self._calls,
            instructions=tuple(map(self._instruction, program))
            if any(each.opcode is not Opcode.CALL for each in program)
            else (),
            loops=linear.loops,
            owners={self._key(value): self._key(owner) for value, owner in shared.owners.items()},
            uses={
                # Copies that are left out may be at the ends.
                self._key(owner): (min(moved[first], end), max(moved[last + 1] - 1, 0))
                for owner, (first, last) in shared.spans.items()
            },
        )

    def _check(self) -> None:
        """Checks that nothing else writes to variables that were computed in advance."""
        known = self._binder.results
        for item in each_item(self._structured.items):
            if isinstance(item, Append | LengthUpdate) and item != LengthUpdate():
                raise NotBound("lengths change while the model runs")
            if not isinstance(item, BasicBlock | LengthUpdate) and getattr(item, "target", None) in known:
                raise NotBound("a variable is known before the model runs")

    def _variable(self, index: int) -> Value:
        """Returns the variable of an operand, or its constant."""
        if index not in self._values:
            constant = self._binder.constant(index)
            value = Value((_size(self._operands[index]),), Scalar.UINT8, constant)
            self._values[index], self._keys[value] = value, index
        return self._values[index]

    def _argument(self, argument: int | BoundTemporary) -> Value:
        if isinstance(argument, int):
            return self._variable(argument)
        if argument not in self._values:
            value = Value((argument.size_bytes,), Scalar.UINT8)
            self._values[argument], self._keys[value] = value, argument
        return self._values[argument]

    def _key(self, value: Value) -> Key:
        if value not in self._keys:
            # Keeps the value of a variable while several are copied.
            self._keys[value] = BoundTemporary(size_bytes=value.size_bytes)
        return self._keys[value]

    def _called(self, item: BasicBlock | Update) -> list[LinearInstruction]:
        if isinstance(item, Update):
            # The copy before it has written the other elements.
            return [self._call(item.operation, self._updating(item), is_partial=True)]
        found: list[LinearInstruction] = []
        for position in item.operations:
            calls, written = self._bound[position], set()
            if calls is None:
                operation = self._binder.graph.operations[position]
                raise NotBound(f"{operation.type.name} has no kernel")
            for call in calls:
                output = call.arguments[0]
                found.append(self._call(position, call, is_partial=output in written))
                written.add(output)
        return found

    def _call(self, position: int, call: BoundCall, *, is_partial: bool) -> LinearInstruction:
        self._calls.append((self._structured.origins[position], call))
        output, *read = (
            self._argument(each) for each in call.arguments if not isinstance(each, BoundConstant)
        )
        return LinearInstruction(
            opcode=Opcode.CALL,
            number=len(self._calls) - 1,
            reads=tuple(dict.fromkeys(each for each in read if each.constant is None)),
            writes=(output,),
            is_partial=is_partial,
        )

    def _updating(self, update: Update) -> BoundCall:
        operands = self._operands
        whole, part = (operands[each].dimensions for each in (update.target, update.part))
        if whole is None or part is None:
            raise NotBound("a length is not known")
        placed = PlacedPart(
            itemsize=operands[update.target].type.dtype.itemsize,
            whole=whole,
            shape=part,
            start=update.start,
            start_type=operands[update.start].type,
            is_written=True,
        )
        return part_moving_call(update.target, update.part, placed, update.message)

    def _lengths(self, update: LengthUpdate) -> LinearInstruction:
        raise NotBound("lengths change while the model runs")

    def _instruction(self, each: LinearInstruction) -> ProgramInstruction:
        is_call, is_copy = each.opcode is Opcode.CALL, each.opcode is Opcode.COPY
        return ProgramInstruction(
            opcode=each.opcode,
            number=each.reads[0].size_bytes if is_copy else each.number,
            target=each.target,
            accessed=() if is_call else tuple(map(self._key, (*each.writes, *each.reads))),
            operations=each.origins,
        )


def _size(operand: Operand) -> int:
    if operand.dimensions is None:
        raise NotBound("a length is not known")
    return byte_size(operand.type, operand.dimensions)
