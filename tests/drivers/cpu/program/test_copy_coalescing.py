"""Variables share memory only if no value is lost; programs are also run with and without."""

import random

from support.sweeps import sweep

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.program.copy_coalescing import coalesce_copies, without_own_copies
from neurald.drivers.cpu.program.linear_program import LinearInstruction
from neurald.drivers.cpu.target.executable import Opcode
from neurald.hal.records import replace


def value(name: str, size: int = 4) -> Value:
    return Value((size,), Scalar.INT32, name=name)


def call(target: Value, *sources: Value, partial: bool = False) -> LinearInstruction:
    return LinearInstruction(opcode=Opcode.CALL, reads=sources, writes=(target,), is_partial=partial)


def copy(target: Value, source: Value) -> LinearInstruction:
    return LinearInstruction(opcode=Opcode.COPY, reads=(source,), writes=(target,))


def append(target: Value, base: Value, part: Value) -> list[LinearInstruction]:
    last = LinearInstruction(opcode=Opcode.COPY, reads=(part,), writes=(target,), is_partial=True, base=base)
    return [copy(target, base), last]


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
    x, y, large = value("x"), value("y"), value("large", 8)
    assert not shares([copy(y, x)], x, y, inputs=[x], outputs=[y])
    assert not shares([call(x), copy(y, x)], x, y, outputs=[x, y])
    found = coalesce_copies([call(x), *append(large, x, y)], [y], [large])
    assert found.members[large] == (large, x)
    assert found.members[y] == (y,)


def test_elements_are_appended_in_place() -> None:
    first, row, values, longer, old, other, kept = (
        value(name) for name in ("first", "row", "values", "longer", "old", "other", "kept")
    )

    def loop(
        *body: LinearInstruction,
        part: Value = row,
        condition: tuple[LinearInstruction, ...] = (),
        after: tuple[LinearInstruction, ...] = (),
    ) -> list[LinearInstruction]:
        count = len(condition) + len(body) + len(after)
        return [
            copy(values, first),
            copy(old, first),
            *condition,
            LinearInstruction(opcode=Opcode.TEST_LOOP, reads=(row,), target=7 + count),
            *body,
            *append(longer, values, part),
            *after,
            copy(values, longer),
            LinearInstruction(opcode=Opcode.JUMP, target=2),
        ]

    def sharing(program: list[LinearInstruction], *outputs: Value) -> set[Value]:
        """Returns the variables that share memory with `values`."""
        found = coalesce_copies(program, [first, row], outputs)
        return {*found.members[found.owners[values]]} - {values}

    assert sharing(loop(), values) == {longer}
    # The shorter list stays what it is until it is replaced.
    assert sharing(loop(after=(call(other, values),)), values, other) == {longer}
    assert sharing(loop(call(other, values), after=(call(other, values, longer),)), values) == {longer}
    assert sharing(loop(after=(copy(kept, values), call(other, kept))), values, other) == {longer, kept}
    # It is needed in the next turn.
    assert sharing(loop(call(other, old), after=(copy(old, values),)), values, other) == {longer}
    assert sharing(loop(after=(copy(old, values),)), values, old) == {longer}
    # The condition of the next turn reads it.
    assert sharing(loop(condition=(call(other, old),), after=(copy(old, values),)), values) == {longer}
    # Elements are appended to it twice.
    assert sharing(loop(*append(other, values, row)), values, other) == {longer}
    twice = [*append(other, values, row), call(kept, other)]
    assert sharing(loop(*twice), values) == {longer, other}
    both_needed = loop(*append(other, values, row), after=(call(kept, other),))
    assert len(sharing(both_needed, values)) == 1
    # A list is appended to itself.
    assert sharing(loop(part=values), values) == {longer}


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
) -> list[list[int]]:
    """Runs a program on memory by owner; conditions are random numbers of the seed."""
    rng, position, left = random.Random(seed), 0, 200
    memory: dict[Value, list[int]] = {owner: [0] * 1000 for owner in owners.values()}
    #: Lengths of variables are known, whatever is in their memory.
    lengths = dict.fromkeys(owners, 1)

    def elements(variable: Value) -> list[int]:
        return memory[owners[variable]][: lengths[variable]]

    while position < len(program) and left and max(lengths.values()) < 400:
        left -= 1
        instruction = program[position]
        position += 1
        read = [element for each in instruction.reads for element in elements(each)]
        if instruction.opcode is Opcode.COPY:
            (target,), begin = instruction.writes, 0
            if instruction.base is not None:
                begin = lengths[instruction.base]
            memory[owners[target]][begin : begin + len(read)] = read
            lengths[target] = begin + len(read)
        elif instruction.opcode is Opcode.CALL:
            (target,) = instruction.writes
            kept = elements(target) if instruction.is_partial else []
            lengths[target] = lengths[target] if instruction.is_partial else 1 + position % 3
            found = hash((position, *kept, *read))
            memory[owners[target]][: lengths[target]] = [found + n for n in range(lengths[target])]
        elif instruction.opcode is Opcode.JUMP or rng.random() < 0.5:
            position = instruction.target
    # A program that does not end has no results.
    return [elements(each) for each in outputs] if position >= len(program) else []


@sweep("seed", range(500))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    variables = [value(str(n)) for n in range(rng.randint(2, 7))]
    length = rng.randint(3, 20)
    # Every variable has a value before it is read.
    first, *others = variables
    program = [call(first), *(call(each) if rng.random() < 0.3 else copy(each, first) for each in others)]
    for _ in range(length):
        kind = rng.random()
        target, source, other = (rng.choice(variables) for _ in range(3))
        if kind < 0.25:
            program.append(copy(target, source))
        elif kind < 0.5 and target not in (source, other):
            program += append(target, source, other)
        elif kind < 0.85:
            reads = [each for each in (source, other) if each is not target]
            program.append(call(target, *reads, partial=rng.random() < 0.3))
        else:
            opcode = rng.choice((Opcode.BRANCH, Opcode.TEST_LOOP, Opcode.JUMP))
            place = rng.randint(len(variables), len(variables) + length)
            conditions = () if opcode is Opcode.JUMP else (source,)
            program.append(LinearInstruction(opcode=opcode, reads=conditions, target=place))
    # No jump separates the two copies of an append.
    program = [
        replace(each, target=each.target - 1)
        if each.target and each.target < len(program) and program[each.target].base is not None
        else each
        for each in program
    ]
    # Variables that are needed at the same time, and may yet share memory, as outputs may not.
    last = value("last")
    program.append(call(last, *rng.sample(variables, min(3, len(variables)))))
    outputs = [rng.choice(variables), last]
    owners = dict(coalesce_copies(program, [], outputs).owners)
    alone = {each: each for each in (*variables, last)}
    for run in range(5):
        assert _run(program, owners, outputs, run) == _run(program, alone, outputs, run)


def test_jumps_go_to_the_same_instructions_without_copies() -> None:
    x, y, test = value("x"), value("y"), value("test", 1)
    branch = LinearInstruction(opcode=Opcode.BRANCH, target=1, reads=(test,))
    jump = LinearInstruction(opcode=Opcode.JUMP, target=3)
    program, moved = without_own_copies([branch, copy(y, x), call(x), jump], {x: x, y: x})
    assert [each.opcode for each in program] == [Opcode.BRANCH, Opcode.CALL, Opcode.JUMP]
    assert moved == [0, 1, 1, 2, 3]
    assert [each.target for each in program] == [1, 0, 2]
    # Artifacts tell numbers from truth values.
    assert {type(each.target) for each in program} == {int}
