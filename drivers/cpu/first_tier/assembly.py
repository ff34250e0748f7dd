"""Assembles an executable from operations that are bound to the kernels of the first tier."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary
from neurald.drivers.cpu.target.executable import WORD_BYTES, Executable, Instruction, Opcode
from neurald.drivers.cpu.target.kernel_calls import KernelCall, KernelCalls
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.hal.memory.arena_planner import Lifespan, Strategy, plan_memory
from neurald.hal.memory.pool import aligned_zeros
from neurald.hal.model.types import Model, Operand, Subgraph, byte_size

if TYPE_CHECKING:
    # Few models have control flow.
    from neurald.drivers.cpu.first_tier.program import BoundProgram

#: Describes the kernels, for profiles.
_LABEL: Final = "first tier"


class BoundPart(Struct, frozen=True, kw_only=True):
    """Operations of a model that run together.

    Attributes:
        model: the model.
        graph: one of its graphs.
        inputs, outputs: operands that other operations, or the client, compute or need.
        calls: the kernels in order, each with the position of its operation. All operands that they
            access are fully specified.
        known: values that operations compute from constants, by operand.
        program: of a part with control flow, which has these calls.
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


class _Assembly:
    """The memory of a part, and its calls."""

    def __init__(self, part: BoundPart) -> None:
        self._part = part
        self._calls = [call for _, call in part.calls]
        program = part.program
        self._instructions = () if program is None else program.instructions
        self._owners: Mapping[int | BoundTemporary, int | BoundTemporary] = (
            {} if program is None else program.owners
        )
        #: Values in the arena, by what is read or written, with their sizes.
        self._sizes: dict[int | BoundTemporary, int] = {}
        self._constants: dict[int | BoundConstant, int] = {}
        self._constants_bytes = 0
        for index in (*part.inputs, *part.outputs):
            self._add_value(index)
        for call in self._calls:
            for each in call.arguments:
                self._add(each)
        for instruction in self._instructions:
            for each in instruction.accessed:
                self._add(each)
        self._offsets = self._planned()

    def _add(self, argument: int | BoundConstant | BoundTemporary) -> None:
        """Makes place for an argument."""
        if isinstance(argument, BoundConstant):
            self._add_constant(argument, argument.size_bytes)
        elif isinstance(argument, int) and (value := self._part.constant(argument)) is not None:
            self._add_constant(argument, value.nbytes)
        else:
            self._add_value(argument)

    def _add_value(self, key: int | BoundTemporary) -> None:
        """Makes place for a value, or for all that share its memory."""
        size = key.size_bytes if isinstance(key, BoundTemporary) else _size(self._part.graph.operands[key])
        owner = self._owner(key)
        self._sizes[owner] = max(size, self._sizes.get(owner, 0))

    def _owner(self, key: int | BoundTemporary) -> int | BoundTemporary:
        return self._owners.get(key, key)

    def _add_constant(self, key: int | BoundConstant, size_bytes: int) -> None:
        if key not in self._constants:
            self._constants[key] = self._constants_bytes
            self._constants_bytes += -(-size_bytes // ALIGNMENT) * ALIGNMENT

    def _planned(self) -> Mapping[int | BoundTemporary, int]:
        """Returns the offsets of values in the arena."""
        uses = self._uses()
        keys = list(self._sizes)
        plan = plan_memory(
            [
                Lifespan(
                    value=number,
                    size_bytes=max(1, self._sizes[key]),
                    first=min(uses[key], default=0),
                    last=max(uses[key], default=0),
                )
                for number, key in enumerate(keys)
            ],
            alignment=ALIGNMENT,
            # Far less work than all of them, and nearly always the best one.
            strategies=(Strategy.SIZE,),
        )
        self._arena_bytes, self._unshared_bytes = plan.size_bytes, plan.unshared_bytes
        return {key: plan.offsets[number] for number, key in enumerate(keys)}

    def _uses(self) -> Mapping[int | BoundTemporary, Sequence[int]]:
        """Returns positions between which each value is in use."""
        part, end = self._part, len(self._calls)
        if part.program is not None:
            return {key: part.program.uses.get(key, (0, 0)) for key in self._sizes}
        uses: dict[int | BoundTemporary, list[int]] = {key: [] for key in self._sizes}
        for number, call in enumerate(self._calls):
            for each in call.arguments:
                if not isinstance(each, BoundConstant) and each in uses:
                    uses[each].append(number)
        for index in part.inputs:
            uses[index].append(0)
        for index in part.outputs:
            uses[index].append(end)
        return uses

    def _location(self, argument: int | BoundConstant | BoundTemporary) -> BufferLocation:
        if isinstance(argument, BoundConstant) or argument in self._constants:
            return BufferLocation(Base.CONSTANTS, self._constants[argument])
        return BufferLocation(Base.ARENA, self._offsets[self._owner(argument)])

    def executable(self, target: str) -> tuple[Executable, np.ndarray]:
        """See `assemble`."""
        kernels: list[KernelCall] = []
        words: list[int] = []
        users: dict[int | BoundTemporary, list[int]] = {}
        number = 0
        for position, call in self._part.calls:
            for place, each in enumerate(call.arguments):
                if isinstance(each, int):
                    users.setdefault(self._owner(each), []).append(number + place)
            number += len(call.arguments) + 1
            kernels.append(
                KernelCall(
                    function=call.function,
                    locations=(
                        *map(self._location, call.arguments),
                        BufferLocation(Base.EXTENTS, WORD_BYTES * len(words)),
                    ),
                    work_items=call.work_items,
                    cost_ns=float(call.cost_ns),
                    messages=call.messages,
                    label=_LABEL,
                    operations=(position,),
                )
            )
            words += map(int, call.words)
        part = self._part
        read = {
            self._owner(each)
            for call in self._calls
            for each in call.arguments[1:]
            if not isinstance(each, BoundConstant)
        }
        for instruction in self._instructions:
            for place, each in enumerate(instruction.accessed):
                users.setdefault(self._owner(each), []).append(number + place)
            number += len(instruction.accessed)
            is_copy = instruction.opcode is Opcode.COPY
            read.update(map(self._owner, instruction.accessed[is_copy:]))
        executable = Executable(
            target=target,
            calls=KernelCalls.of(kernels),
            inputs=tuple(self._port(index) for index in part.inputs),
            outputs=tuple(self._port(index) for index in part.outputs),
            input_arguments=tuple(tuple(users.get(self._owner(index), ())) for index in part.inputs),
            output_arguments=tuple(
                () if self._owner(index) in read else tuple(users.get(self._owner(index), ()))
                for index in part.outputs
            ),
            arena_bytes=self._arena_bytes,
            constants_bytes=self._constants_bytes,
            scratch_bytes=0,
            unshared_bytes=self._unshared_bytes,
            is_tolerant=True,
            extents=tuple(words),
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
            loops=0 if part.program is None else part.program.loops,
        )
        return executable, self._contents()

    def _contents(self) -> np.ndarray:
        """Returns the contents of the constants."""
        contents = aligned_zeros(self._constants_bytes, ALIGNMENT)
        for key, offset in self._constants.items():
            if isinstance(key, BoundConstant):
                if key.fill is not None:
                    part = contents[offset : offset + key.size_bytes]
                    key.fill(part.view(key.dtype).reshape(key.shape))
                continue
            value = self._part.constant(key)
            assert value is not None  # noqa: S101 - a constant
            flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            contents[offset : offset + flat.size] = flat
        return contents

    def _port(self, index: int) -> Port:
        operand = self._part.graph.operands[index]
        assert operand.dimensions is not None  # noqa: S101 - checked
        return Port(
            offset=self._offsets[self._owner(index)],
            size_bytes=_size(operand),
            dimensions=operand.dimensions,
            type=int(operand.type),
            scale=operand.scale,
            zero_point=operand.zero_point,
        )


def _size(operand: Operand) -> int:
    assert operand.dimensions is not None  # noqa: S101 - checked
    return byte_size(operand.type, operand.dimensions)
