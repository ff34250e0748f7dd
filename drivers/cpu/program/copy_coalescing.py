"""Lets variables of a program share memory, so that copies between them are not needed.

The two variables of a copy share memory if neither is written while the other one is needed, as in
a compiler's register allocation. A kernel never writes a variable over one that it reads.

Variables that share memory begin at the same place, and may have different sizes. A list that grows
shares memory with the longer list that results from appending elements to it: these are stored
behind it, so that even the shorter list stays what it is.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.program.linear_program import LinearInstruction
from neurald.drivers.cpu.target.executable import Opcode
from neurald.hal.records import replace


class SharedVariables(Struct, frozen=True, kw_only=True):
    """The variables that share memory, and the spans in which it is in use.

    Attributes:
        owners: the variable whose memory a variable shares, which may be its own.
        spans: the first and last position at which an owner is in use.
        members: the variables that share the memory of an owner, itself included.
    """

    owners: Mapping[Value, Value]
    spans: Mapping[Value, tuple[int, int]]
    members: Mapping[Value, tuple[Value, ...]]


def coalesce_copies(
    program: Sequence[LinearInstruction], inputs: Sequence[Value], outputs: Sequence[Value]
) -> SharedVariables:
    """Finds variables that can share memory.

    Args:
        program: the instructions.
        inputs: variables that are given. They are never written.
        outputs: variables that are needed at the end, each in its own memory.
    """
    return _Coalescing(program, inputs, outputs).result()


def without_own_copies(
    program: Sequence[LinearInstruction], owners: Mapping[Value, Value]
) -> tuple[tuple[LinearInstruction, ...], list[int]]:
    """Returns the program without copies between variables that share memory.

    Also returns how many of its instructions are before each position of the given program.
    """

    def is_kept(instruction: LinearInstruction) -> bool:
        if instruction.opcode is not Opcode.COPY or instruction.base is not None:
            return True
        (target,), (source,) = instruction.writes, instruction.reads
        return owners.get(target, target) is not owners.get(source, source)

    kept = [is_kept(each) for each in program]
    # Sums of truth values would begin with one, which is no number in an artifact.
    moved = [*accumulate(kept, initial=0)]
    instructions = tuple(
        replace(each, target=moved[each.target]) if each.target else each
        for each, stays in zip(program, kept, strict=True)
        if stays
    )
    return instructions, moved


class _Coalescing:
    """Sets of variables are the bits of integers."""

    def __init__(
        self, program: Sequence[LinearInstruction], inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> None:
        self._program = program
        self._variables = list(
            dict.fromkeys(
                each
                for each in (
                    *inputs,
                    *outputs,
                    *(v for i in program for v in (*i.writes, *i.reads) if v.constant is None),
                )
            )
        )
        self._numbers = {value: number for number, value in enumerate(self._variables)}
        self._inputs, self._outputs = self._set(inputs), self._set(outputs)
        self._reads = [self._set(each.reads) for each in program]
        self._writes = [self._set(each.writes) for each in program]
        self._live_after = self._liveness()
        #: The variables that share memory with each one, and the positions that write them.
        self._classes = [1 << number for number in range(len(self._variables))]
        self._written_at: list[list[int]] = [[] for _ in self._variables]
        for position, instruction in enumerate(program):
            for value in instruction.writes:
                self._written_at[self._numbers[value]].append(position)

    def _set(self, values: Sequence[Value]) -> int:
        found = 0
        for value in values:
            if value.constant is None:
                found |= 1 << self._numbers[value]
        return found

    def _liveness(self) -> list[int]:
        """Returns the variables that are needed after each instruction."""
        count = len(self._program)
        before, after = [0] * count + [self._outputs], [0] * count
        is_changed = True
        while is_changed:
            is_changed = False
            for position in reversed(range(count)):
                instruction = self._program[position]
                needed = 0 if instruction.opcode is Opcode.JUMP else before[position + 1]
                if instruction.opcode in (Opcode.JUMP, Opcode.BRANCH, Opcode.TEST_LOOP):
                    needed |= before[instruction.target]
                after[position] = needed
                if not instruction.is_partial:
                    needed &= ~self._writes[position]
                needed |= self._reads[position]
                if needed != before[position]:
                    before[position], is_changed = needed, True
        return after

    def result(self) -> SharedVariables:
        for instruction in self._program:
            if instruction.opcode is not Opcode.COPY or instruction.base is not None:
                continue
            (target,), (source,) = instruction.writes, instruction.reads
            if source.constant is None:
                self._merge(self._numbers[target], self._numbers[source])
        owners = {
            value: self._variables[_lowest(self._classes[number])]
            for number, value in enumerate(self._variables)
        }
        members: dict[Value, list[Value]] = {}
        for value, owner in owners.items():
            members.setdefault(owner, []).append(value)
        return SharedVariables(
            owners=owners,
            spans=self._spans(owners),
            members={owner: tuple(each) for owner, each in members.items()},
        )

    def _merge(self, first: int, second: int) -> None:
        one, other = self._classes[first], self._classes[second]
        if one == other or not self._may_share(one, other):
            return
        joined = one | other
        written = sorted({*self._written_at[first], *self._written_at[second]})
        for number in _members(joined):
            self._classes[number], self._written_at[number] = joined, written

    def _may_share(self, one: int, other: int) -> bool:
        both = one | other
        if both & self._inputs or (one & self._outputs and other & self._outputs):
            return False
        return not self._meets(one, other) and not self._meets(other, one)

    def _meets(self, one: int, other: int) -> bool:
        """Returns True if a variable of the first set is written while the other is needed."""
        for position in self._written_at[_lowest(one)]:
            instruction = self._program[position]
            if not self._writes[position] & one:
                continue
            if instruction.base is not None:
                kept = self._set((instruction.base,))
            elif instruction.opcode is Opcode.COPY and self._reads[position] & (one | other):
                # Nothing is written if both share memory.
                continue
            else:
                kept = 0
            if (self._live_after[position] | self._reads[position]) & ~kept & other:
                return True
        return False

    def _spans(self, owners: Mapping[Value, Value]) -> Mapping[Value, tuple[int, int]]:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        seen = 0
        for position in range(len(self._program)):
            used = self._live_after[position] | self._reads[position] | self._writes[position]
            for number in _members(used & ~seen):
                first[number] = position
            seen |= used
        seen = 0
        for position in reversed(range(len(self._program))):
            used = self._live_after[position] | self._reads[position] | self._writes[position]
            for number in _members(used & ~seen):
                last[number] = position
            seen |= used
        spans: dict[Value, tuple[int, int]] = {}
        for number in first:
            owner = owners[self._variables[number]]
            begin, end = spans.get(owner, (first[number], last[number]))
            spans[owner] = min(begin, first[number]), max(end, last[number])
        return spans


def _lowest(numbers: int) -> int:
    return (numbers & -numbers).bit_length() - 1


def _members(numbers: int) -> list[int]:
    found = []
    while numbers:
        found.append(_lowest(numbers))
        numbers &= numbers - 1
    return found
