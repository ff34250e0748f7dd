"""Assembles an executable from operations that are bound to the kernels of the first tier."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary
from neurald.drivers.cpu.target.executable import WORD_BYTES, Executable, Instruction, Opcode
from neurald.drivers.cpu.target.kernel_calls import KernelCalls
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.hal.errors import OutOfMemory
from neurald.hal.memory.arena_planner import Lifespan, Strategy, plan_memory
from neurald.hal.memory.pool import leave_all_pages
from neurald.hal.memory.private_memory import anonymous_whole
from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import byte_size
from neurald.hal.operations.machinery.call import Array

if TYPE_CHECKING:
    # Few models have control flow.
    from neurald.drivers.cpu.first_tier.program import BoundProgram

#: When this many bytes of constants are done, what they were made of leaves the memory of the
#: process.
_LEAVE_BYTES: Final = 1 << 20
#: Describes the kernels, for profiles.
_LABEL: Final = "first tier"
#: What has memory in the arena: an operand, or what is between kernels of an operation.
_Key: TypeAlias = int | BoundTemporary


class BoundPart(Struct, frozen=True, kw_only=True):
    """Operations of a model that run together.

    Attributes:
        model: the model.
        graph: one of its graphs.
        inputs, outputs: operands that other operations, or the client, compute or need.
        calls: the kernels in order, each with the position of its operation. All operands that they
            access are fully specified.
        known: values that operations compute from constants, by operand.
        program: the program of a part with control flow, which has these calls.
    """

    model: Model
    graph: Subgraph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    calls: Sequence[tuple[int, BoundCall]]
    known: Mapping[int, np.ndarray]
    program: "BoundProgram | None" = None

    def constant(self, index: int) -> np.ndarray | None:
        """Returns the value of an operand that is known."""
        found = self.known.get(index)
        return self.model.constant(self.graph.operands[index]) if found is None else found


def assemble(part: BoundPart, target: str) -> tuple[Executable, np.ndarray]:
    """Returns the executable of a part, and the contents of its constants.

    Args:
        part: the part.
        target: name of the target.
    """
    return _Assembly(part).executable(target)


class _Slot(Struct):
    """A constant, or memory of the arena that one or more values share.

    Attributes:
        size_bytes: its size.
        constant: what a constant is made of; None for values.
        offset: the offset in the constants, or in the arena.
        first, last: positions of the calls between which it is in use.
    """

    size_bytes: int
    constant: "BoundConstant | Array | None" = None
    offset: int = 0
    first: int = 0
    last: int = 0


class _Assembly:
    """The memory of a part, and its calls, each argument of which is examined once."""

    def __init__(self, part: BoundPart) -> None:
        self._part = part
        program = part.program
        self._instructions = () if program is None else program.instructions
        self._owners: Mapping[_Key, _Key] = {} if program is None else program.owners
        self._slots: dict[_Key | BoundConstant, _Slot] = {}
        self._constants_bytes = 0
        for index in part.inputs:
            self._slot(index)
        #: The slot of each argument of all calls, and None for their words.
        self._arguments: list[_Slot | None] = []
        #: Values that something reads.
        self._read: set[int] = set()
        self._add_calls()
        for instruction in self._instructions:
            slots = [*map(self._slot, instruction.accessed)]
            self._arguments += slots
            self._read.update(map(id, slots[instruction.opcode is Opcode.COPY :]))
        end = len(part.calls)
        for index in part.outputs:
            self._slot(index, end).last = end
        self._plan()

    def _add_calls(self) -> None:
        """Makes place for what calls access."""
        slots, arguments = self._slots, self._arguments
        for number, (_, call) in enumerate(self._part.calls):
            start = len(arguments)
            for each in call.arguments:
                slot = slots.get(each) or self._slot(each, number)
                slot.last = number
                arguments.append(slot)
            self._read.update(map(id, arguments[start + 1 :]))
            arguments.append(None)

    def _slot(self, key: "_Key | BoundConstant", first: int = 0) -> _Slot:
        """Returns the slot of what is accessed, which is made if it is new.

        Args:
            key: an operand, a constant or a temporary.
            first: the position of the first call that does.
        """
        found = self._slots.get(key)
        if found is not None:
            return found
        if isinstance(key, BoundConstant):
            found = self._constant(key, key.size_bytes)
        elif isinstance(key, int) and (value := self._part.constant(key)) is not None:
            found = self._constant(value, value.nbytes)
        else:
            owner = self._owners.get(key, key)
            size = key.size_bytes if isinstance(key, BoundTemporary) else _size(self._operand(key))
            found = self._slots.get(owner)
            if found is None:
                found = self._slots[owner] = _Slot(size, first=first, last=first)
            found.size_bytes = max(found.size_bytes, size)
        self._slots[key] = found
        return found

    def _constant(self, constant: "BoundConstant | Array", size_bytes: int) -> _Slot:
        offset = self._constants_bytes
        self._constants_bytes += -(-size_bytes // ALIGNMENT) * ALIGNMENT
        return _Slot(size_bytes, constant, offset)

    def _operand(self, index: int) -> Operand:
        return self._part.graph.operands[index]

    def _plan(self) -> None:
        """Gives values places in the arena."""
        slots = [*{id(slot): slot for slot in self._slots.values() if slot.constant is None}.values()]
        if self._part.program is not None:
            for slot in slots:
                slot.first = slot.last = 0
            for key, span in self._part.program.uses.items():
                if key in self._slots:
                    self._slots[key].first, self._slots[key].last = span
        plan = plan_memory(
            [
                Lifespan(value=number, size_bytes=max(1, slot.size_bytes), first=slot.first, last=slot.last)
                for number, slot in enumerate(slots)
            ],
            alignment=ALIGNMENT,
            # Far less work than all of them, and nearly always the best one.
            strategies=(Strategy.SIZE,),
        )
        self._arena_bytes, self._unshared_bytes = plan.size_bytes, plan.unshared_bytes
        for number, slot in enumerate(slots):
            slot.offset = plan.offsets[number]

    def _location(self, key: "int | BoundTemporary") -> BufferLocation:
        slot = self._slots[key]
        return BufferLocation(Base.ARENA if slot.constant is None else Base.CONSTANTS, slot.offset)

    def executable(self, target: str) -> tuple[Executable, np.ndarray]:
        """See `assemble`."""
        part, program = self._part, self._part.program
        calls = [call for _, call in part.calls]
        ends = {id(self._slots[index]): index for index in (*part.inputs, *part.outputs)}
        users: dict[int, list[int]] = {each: [] for each in ends}
        for number, slot in enumerate(self._arguments):
            if id(slot) in users:
                users[id(slot)].append(number)
        executable = Executable(
            target=target,
            calls=self._kernel_calls(calls),
            inputs=tuple(self._port(index) for index in part.inputs),
            outputs=tuple(self._port(index) for index in part.outputs),
            input_arguments=tuple(tuple(users[id(self._slots[index])]) for index in part.inputs),
            output_arguments=tuple(
                () if id(slot) in self._read else tuple(users[id(slot)])
                for slot in map(self._slots.__getitem__, part.outputs)
            ),
            arena_bytes=self._arena_bytes,
            constants_bytes=self._constants_bytes,
            scratch_bytes=0,
            unshared_bytes=self._unshared_bytes,
            is_tolerant=True,
            extents=tuple(map(int, chain.from_iterable([call.words for call in calls]))),
            instructions=tuple(
                Instruction(
                    opcode=each.opcode,
                    number=each.number,
                    target=each.target,
                    locations=tuple(map(self._location, each.accessed)),
                    operations=each.operations,
                )
                for each in self._instructions
            ),
            loops=0 if program is None else program.loops,
        )
        return executable, self._contents()

    def _kernel_calls(self, calls: Sequence[BoundCall]) -> KernelCalls:
        """Returns the calls with the places of their arguments, of which words are the last."""
        words = accumulate([WORD_BYTES * len(call.words) for call in calls], initial=0)
        counts = [1 + len(call.arguments) for call in calls]
        slots = self._arguments[: sum(counts)]
        return KernelCalls.of_columns(
            functions=[call.function for call in calls],
            work_items=[call.work_items for call in calls],
            costs_ns=[float(call.cost_ns) for call in calls],
            counts=counts,
            bases=bytes(
                [
                    Base.EXTENTS if slot is None else Base.ARENA if slot.constant is None else Base.CONSTANTS
                    for slot in slots
                ]
            ),
            offsets=[next(words) if slot is None else slot.offset for slot in slots],
            messages=[call.messages for call in calls],
            labels=[_LABEL] * len(calls),
            operations=[(position,) for position, _ in self._part.calls],
        )

    def _contents(self) -> np.ndarray:
        """Returns the contents of the constants.

        Raises:
            OutOfMemory: there is no memory for them.
        """
        # There is no memory without bytes.
        size = max(1, self._constants_bytes)
        try:
            whole = np.frombuffer(anonymous_whole(size), np.uint8)
        except OSError as error:
            raise OutOfMemory(f"cannot map {size} bytes for constants: {error.strerror}") from None
        contents = whole[: self._constants_bytes]
        filled_bytes = 0
        for slot in self._slots.values():
            constant = slot.constant
            if constant is None:
                continue
            filled_bytes += slot.size_bytes
            if filled_bytes >= _LEAVE_BYTES:
                filled_bytes = 0
                self._leave_constants()
            part = contents[slot.offset : slot.offset + slot.size_bytes]
            if not isinstance(constant, BoundConstant):
                part[:] = np.ascontiguousarray(constant).reshape(-1).view(np.uint8)
            elif constant.fill is not None:
                constant.fill(part.view(constant.dtype).reshape(constant.shape))
        if self._constants_bytes >= _LEAVE_BYTES:
            self._leave_constants()
        return contents

    def _leave_constants(self) -> None:
        """Removes the model's constants from this process, of which the kernels read copies.

        They are read again only for what is compiled, or for another preparation.
        """
        for pool in self._part.model.pools:
            leave_all_pages(pool)

    def _port(self, index: int) -> Port:
        operand = self._operand(index)
        assert operand.dimensions is not None  # noqa: S101 - checked
        return Port(
            offset=self._slots[index].offset,
            size_bytes=_size(operand),
            dimensions=operand.dimensions,
            type=int(operand.type),
            scale=operand.scale,
            zero_point=operand.zero_point,
        )


def _size(operand: Operand) -> int:
    assert operand.dimensions is not None  # noqa: S101 - checked
    return byte_size(operand.type, operand.dimensions)
