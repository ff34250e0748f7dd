"""Turns the items of a structured model into instructions that run one after another."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    Append,
    BasicBlock,
    Branch,
    Copy,
    Item,
    LengthUpdate,
    Update,
    WhileLoop,
)
from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.target.executable import Opcode
from neurald.hal.records import replace


class LinearInstruction(Struct, frozen=True, kw_only=True):
    """An instruction of a program.

    Attributes:
        opcode, target: see `neurald.drivers.cpu.target.executable.Instruction`.
        number: the number of the kernel, or of the loop.
        reads, writes: the variables that it reads and writes. A copy has one of each.
        is_partial: True if the variable that it writes keeps other elements.
        base: the base of a copy that appends elements: a variable whose elements the written one
            begins with, and which stays unchanged even if both share memory, because they are
            written behind it.
        origins: positions in the model of the control flow that it is a part of.
    """

    opcode: Opcode
    number: int = 0
    target: int = 0
    reads: tuple[Value, ...] = ()
    writes: tuple[Value, ...] = ()
    is_partial: bool = False
    base: Value | None = None
    origins: tuple[int, ...] = ()


class Linearization:
    """Builds a program.

    Args:
        variable: returns the variable, or the constant, of an operand.
        calls: returns the calls of a block's kernels, or of an update's.
        lengths: returns the call that sets lengths.
    """

    def __init__(
        self,
        variable: Callable[[int], Value],
        calls: Callable[[BasicBlock | Update], Sequence[LinearInstruction]],
        lengths: Callable[[LengthUpdate], LinearInstruction],
    ) -> None:
        self._variable = variable
        self._calls = calls
        self._lengths = lengths
        #: True if the last instructions are copies whose sizes are set.
        self._is_sized = False
        self.instructions: list[LinearInstruction] = []
        self.loops = 0
        self._origins: tuple[int, ...] = ()

    def add(self, items: Sequence[Item]) -> None:
        """Appends the instructions of items."""
        for item in items:
            if isinstance(item, BasicBlock):
                self._call(item)
            elif isinstance(item, Copy):
                self._copy(self._variable(item.target), self._variable(item.source))
            elif isinstance(item, Append):
                self._append_part(*map(self._variable, (item.target, item.source, item.part)))
            elif isinstance(item, Update):
                self._copy(self._variable(item.target), self._variable(item.source))
                self._call(item)
            elif isinstance(item, LengthUpdate):
                self._set_lengths(item)
            elif isinstance(item, WhileLoop):
                self._loop(item)
            else:
                self._branch(item)

    def _call(self, item: BasicBlock | Update) -> None:
        self.instructions += self._calls(item)
        self._is_sized = False

    def _set_lengths(self, update: LengthUpdate) -> None:
        self.instructions.append(self._lengths(update))
        self._is_sized = True

    def _copy(self, target: Value, source: Value) -> None:
        if isinstance(source.size_bytes, Extent) and not self._is_sized:
            self._set_lengths(LengthUpdate())
        self.instructions.append(
            LinearInstruction(opcode=Opcode.COPY, reads=(source,), writes=(target,), origins=self._origins)
        )

    def _append_part(self, target: Value, base: Value, part: Value) -> None:
        """Copies the variable `base`, and `part` behind it."""
        if not self._is_sized:
            self._set_lengths(LengthUpdate())
        self._copy(target, base)
        self.instructions.append(
            LinearInstruction(
                opcode=Opcode.COPY,
                reads=(part,),
                writes=(target,),
                is_partial=True,
                base=base,
                origins=self._origins,
            )
        )

    def _append(self, instruction: LinearInstruction) -> int:
        self.instructions.append(instruction)
        self._is_sized = False
        return len(self.instructions) - 1

    def _jumps_here(self, position: int) -> None:
        """Makes an earlier instruction jump behind the last one."""
        self.instructions[position] = replace(self.instructions[position], target=len(self.instructions))
        self._is_sized = False

    def _loop(self, loop: WhileLoop) -> None:
        number, self.loops = self.loops, self.loops + 1
        before, origins = self._origins, (loop.origin,)
        self._origins = origins
        self._append(LinearInstruction(opcode=Opcode.ENTER_LOOP, number=number, origins=origins))
        first = len(self.instructions)
        self.add(loop.condition)
        test = self._append(
            LinearInstruction(
                opcode=Opcode.TEST_LOOP, number=number, reads=(self._variable(loop.test),), origins=origins
            )
        )
        self.add(loop.body)
        if loop.lengths.lengths:
            self._set_lengths(loop.lengths)
        self._copy_together(
            {self._variable(each.target): self._variable(each.source) for each in loop.updates}
        )
        self._append(LinearInstruction(opcode=Opcode.JUMP, target=first, origins=origins))
        self._jumps_here(test)
        self._origins = before

    def _copy_together(self, copies: Mapping[Value, Value]) -> None:
        """Copies as if at the same time, although a target may be the source of another copy."""
        pending = dict(copies)
        while pending:
            sources = list(pending.values())
            free = [target for target in pending if sources.count(target) == 0]
            for target in free:
                self._copy(target, pending.pop(target))
            if not free:
                # Every target is still needed: keep the old value of one of them.
                target = next(iter(pending))
                kept = Value(target.shape, target.type, name=target.name)
                self._copy(kept, target)
                pending = {each: kept if source is target else source for each, source in pending.items()}

    def _branch(self, branch: Branch) -> None:
        before, origins = self._origins, (branch.origin,)
        self._origins = origins
        reads = (self._variable(branch.condition),)
        condition = self._append(LinearInstruction(opcode=Opcode.BRANCH, reads=reads, origins=origins))
        self.add(branch.then)
        if branch.otherwise:
            end = self._append(LinearInstruction(opcode=Opcode.JUMP, origins=origins))
            self._jumps_here(condition)
            self.add(branch.otherwise)
            self._jumps_here(end)
        else:
            self._jumps_here(condition)
        self._origins = before
