"""Variables share memory only if no value is lost; programs are also run with and without."""

import random

from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.program.copy_coalescing import coalesce_copies
from neurald.drivers.cpu.program.linear_program import LinearInstruction
from neurald.drivers.cpu.target.executable import Opcode


def value(name: str, size: int = 4) -> Value:
    return Value((size,), Scalar.INT32, name=name)


def call(target: Value, *sources: Value, partial: bool = False) -> LinearInstruction:
    return LinearInstruction(opcode=Opcode.CALL, reads=sources, writes=(target,), is_partial=partial)


def copy(target: Value, source: Value) -> LinearInstruction:
    return LinearInstruction(opcode=Opcode.COPY, reads=(source,), writes=(target,))


def shares(
    program: list[LinearInstruction],
    one: Value,
    other: Value,
    *,
    inputs: list[Value] | None = None,
    outputs: list[Value] | None = None,
) -> bool:
    owners = coalesce_copies(program, inputs or [], outputs or []).owners
    return owners[one] is owners[other]


def test_a_copy_of_a_value_that_is_not_needed_any_more() -> None:
    x, y, z = value("x"), value("y"), value("z")
    assert shares([call(x), copy(y, x), call(z, y)], x, y, outputs=[z])
    # x is changed while y is needed.
    assert not shares([call(x), copy(y, x), call(x), call(z, y, x)], x, y, outputs=[z])
    # Both hold the same number.
    assert shares([call(x), copy(y, x), call(z, y, x)], x, y, outputs=[z])


def test_inputs_outputs_and_sizes() -> None:
    x, y, small = value("x"), value("y"), value("small", 2)
    assert not shares([copy(y, x)], x, y, inputs=[x], outputs=[y])
    assert not shares([call(x), copy(y, x)], x, y, outputs=[x, y])
    assert not shares([call(x), copy(small, x)], x, small, outputs=[small])


def test_a_kernel_does_not_write_over_what_it_reads() -> None:
    """t = t + 1 in a loop needs a copy, unless another kernel has read t before."""
    first, t, following, u, holds = (value(name) for name in ("first", "t", "following", "u", "holds"))

    def loop(*body: LinearInstruction) -> list[LinearInstruction]:
        return [
            copy(t, first),
            call(holds, t),
            LinearInstruction(opcode=Opcode.TEST_LOOP, reads=(holds,), target=5 + len(body)),
            *body,
            copy(t, following),
            LinearInstruction(opcode=Opcode.JUMP, target=1),
        ]

    given = [first]
    assert not shares(loop(call(following, t)), t, following, inputs=given, outputs=[t])
    assert shares(loop(call(u, t), call(following, u)), t, following, inputs=given, outputs=[t])
    # t is read after its next value is known.
    late = loop(call(u, t), call(following, u), call(u, t, following), call(holds, u))
    assert not shares(late, t, following, inputs=given, outputs=[t])


def test_a_part_is_stored_in_place() -> None:
    first, values, updated, item = (value(name) for name in ("first", "values", "updated", "item"))

    def program(*after: LinearInstruction) -> list[LinearInstruction]:
        return [
            copy(values, first),
            copy(updated, values),
            call(updated, item, partial=True),
            *after,
            copy(values, updated),
        ]

    assert shares(program(), values, updated, inputs=[first, item], outputs=[values])
    # The old elements are still needed.
    assert not shares(program(call(item, values)), values, updated, inputs=[first], outputs=[values, item])


def _run(
    program: list[LinearInstruction], owners: dict[Value, Value], outputs: list[Value], seed: int
) -> list[int]:
    """Runs a program on memory by owner; conditions are random numbers of the seed."""
    rng, memory, position, left = random.Random(seed), dict[Value, int](), 0, 200
    while position < len(program) and left:
        left -= 1
        instruction = program[position]
        position += 1
        read = [memory.get(owners[each], 0) for each in instruction.reads]
        if instruction.opcode is Opcode.COPY:
            memory[owners[instruction.writes[0]]] = read[0]
        elif instruction.opcode is Opcode.CALL:
            kept = memory.get(owners[instruction.writes[0]], 0) if instruction.is_partial else 0
            memory[owners[instruction.writes[0]]] = hash((position, kept, *read))
        elif instruction.opcode is Opcode.JUMP or rng.random() < 0.5:
            position = instruction.target
    # A program that does not end has no results.
    return [memory.get(owners[each], 0) for each in outputs] if position >= len(program) else []


@sweep("seed", range(300))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    variables = [value(str(n)) for n in range(rng.randint(2, 7))]
    length = rng.randint(3, 20)
    # Every variable has a value before it is read.
    program = [call(each) for each in variables]
    for _ in range(length):
        kind = rng.random()
        target, source, other = (rng.choice(variables) for _ in range(3))
        if kind < 0.5:
            program.append(copy(target, source))
        elif kind < 0.75:
            reads = [each for each in (source, other) if each is not target]
            program.append(call(target, *reads, partial=rng.random() < 0.3))
        else:
            opcode = rng.choice((Opcode.BRANCH, Opcode.TEST_LOOP, Opcode.JUMP))
            place = rng.randint(len(variables), len(variables) + length)
            conditions = () if opcode is Opcode.JUMP else (source,)
            program.append(LinearInstruction(opcode=opcode, reads=conditions, target=place))
    outputs = rng.sample(variables, 2)
    owners = dict(coalesce_copies(program, [], outputs).owners)
    alone = {each: each for each in variables}
    for run in range(5):
        assert _run(program, owners, outputs, run) == _run(program, alone, outputs, run)
