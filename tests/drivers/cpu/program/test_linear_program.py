import random

from support.sweeps import sweep

from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    BasicBlock,
    Branch,
    Copy,
    Update,
    WhileLoop,
)
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.program.linear_program import LinearInstruction, Linearization
from neurald.drivers.cpu.target.executable import Opcode


def linearized(
    *items: BasicBlock | Branch | Copy | WhileLoop | Update,
) -> tuple[list[LinearInstruction], dict[int, Value]]:
    """Returns the instructions of items, and the values of operands. A block is one call."""
    variables: dict[int, Value] = {}

    def variable(operand: int) -> Value:
        return variables.setdefault(operand, Value((1,), Scalar.INT32, name=str(operand)))

    def calls(item: BasicBlock | Update) -> list[LinearInstruction]:
        number = item.operations[0] if isinstance(item, BasicBlock) else item.operation
        return [LinearInstruction(opcode=Opcode.CALL, number=number)]

    linear = Linearization(variable, calls, lambda _: LinearInstruction(opcode=Opcode.CALL, number=-1))
    linear.add(items)
    return linear.instructions, variables


def block(number: int) -> BasicBlock:
    return BasicBlock(operations=(number,))


def test_loops_and_branches() -> None:
    loop = WhileLoop(
        condition=(block(1),), test=5, body=(block(2),), updates=(Copy(target=6, source=7),), origin=3
    )
    branch = Branch(condition=8, then=(loop,), otherwise=(block(4),), origin=2)
    program, _ = linearized(block(0), branch, Branch(condition=8, then=(block(5),), otherwise=(), origin=9))
    assert [(each.opcode.name, each.number, each.target) for each in program] == [
        ("CALL", 0, 0),
        ("BRANCH", 0, 9),
        ("ENTER_LOOP", 0, 0),
        ("CALL", 1, 0),
        ("TEST_LOOP", 0, 8),
        ("CALL", 2, 0),
        ("COPY", 0, 0),
        ("JUMP", 0, 3),
        ("JUMP", 0, 10),
        ("CALL", 4, 0),
        ("BRANCH", 0, 12),
        ("CALL", 5, 0),
    ]
    assert program[1].origins == (2,)
    assert program[4].origins == (3,)


@sweep("seed", range(100))
def test_updates_happen_at_the_same_time(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 6)
    targets = rng.sample(range(6), count)
    copies = tuple(Copy(target=each, source=rng.randrange(6)) for each in targets)
    program, variables = linearized(WhileLoop(condition=(), test=9, body=(), updates=copies, origin=0))
    memory = {variable: operand for operand, variable in variables.items()}
    before = {operand: operand for operand in range(6)}
    for each in program:
        if each.opcode is Opcode.COPY:
            memory[each.writes[0]] = memory[each.reads[0]]
    for copy in copies:
        assert memory[variables[copy.target]] == before[copy.source]
