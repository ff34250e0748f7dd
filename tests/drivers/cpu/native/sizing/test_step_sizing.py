"""Native code computes the numbers and sizes of steps exactly, and refuses wrong ones."""

import array
import random
from typing import Any

import msgspec
import pytest

from neurald.drivers.compiler.ir.extents.extent import excess
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.drivers.compiler.memory.extent_evaluation import ExtentEvaluation
from neurald.drivers.compiler.memory.extent_program import Division, ExtentProgram, ProgramBuilder
from neurald.drivers.compiler.memory.open_step import OpenLocation, OpenPort, OpenValue
from neurald.drivers.cpu.device import process_settings
from neurald.drivers.cpu.native.programs.sizing_program import SizeRefusal
from neurald.drivers.cpu.native.sizing.step_sizing import StepSizing
from neurald.drivers.cpu.native.thread_pool import process
from neurald.drivers.cpu.target.executable import MAX_COST_NS, RECORD_NS, UNSHARED, Executable
from neurald.drivers.cpu.target.kernel_calls import KernelCall, KernelCalls
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.drivers.cpu.target.target import host_target
from neurald.hal.model.types import OperandType

pytestmark = pytest.mark.quick

_PORT = Port(
    offset=0,
    size_bytes=8,
    dimensions=(2,),
    type=int(OperandType.TENSOR_FLOAT32),
    scale=0.0,
    zero_point=0,
)
#: The length of the dimension, four times it, 1, and 100 minus the length.
_NUMBERS = (((1, (0,)),), ((4, (0,)),), ((1, ()),), ((100, ()), (-1, (0,))))


def sizing(opened: OpenExecutable) -> StepSizing:
    """Returns what computes the sizes of a step."""
    return StepSizing(opened, process.step_program(host_target(process_settings())).addresses)


def opened(**changes: Any) -> OpenExecutable:
    """Returns a step of one call: it reads a constant and writes a value of open length."""
    call = KernelCall(
        function="f",
        locations=(BufferLocation(Base.CONSTANTS, 24), BufferLocation(Base.ARENA, 0)),
        work_items=2,
        cost_ns=5.0,
    )
    known: dict[str, Any] = {
        "program": ExtentProgram(bounds=((1, 1 << 40),), divisions=(), guards=(), values=_NUMBERS),
        "symbols": (((0, 0),),),
        "values": (OpenValue((1,), 0, 0),),
        "inputs": (OpenPort(-1, 1, (0,)),),
        "outputs": (OpenPort(0, 1, (0,)),),
        "template": template(call),
        "work_items": (0,),
        "locations": ((None, OpenLocation(0, 2)),),
        "extents": (3, 0),
        "scratch_bytes": (2, 1),
        "names": {},
    }
    return OpenExecutable(**(known | changes))


def program_of(**changes: Any) -> OpenExecutable:
    """Returns a step without calls that has the numbers of a program."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("symbols", "values", "inputs", "outputs", "work_items", "locations", "extents", "scratch_bytes"), ()
    )
    return opened(**nothing | {"template": template()} | changes)


def template(*calls: KernelCall) -> Executable:
    """Returns an executable with these calls."""
    return Executable(
        target="generic",
        inputs=(_PORT,) if calls else (),
        outputs=(_PORT,) if calls else (),
        input_arguments=((),) if calls else (),
        output_arguments=((),) if calls else (),
        calls=KernelCalls.of(calls),
        constants_bytes=64,
        arena_bytes=64,
        scratch_bytes=0,
        unshared_bytes=0,
        is_tolerant=False,
    )


def plan(arena: int, offset: int, size: int) -> "array.array[int]":
    """Returns a plan of one value."""
    return array.array("q", [arena, offset, size])


@pytest.mark.parametrize("seed", range(20))
def test_numbers_are_those_of_the_evaluation_by_arrays(seed: int) -> None:
    chosen = random.Random(seed)
    scope = ExtentScope([chosen.randint(2, 99), chosen.randint(2, 9)])
    numbers: list[Any] = list(scope.symbols)
    for _ in range(8):
        one, other, known = chosen.choice(numbers), chosen.choice(numbers), chosen.randint(1, 30)
        numbers.append(
            chosen.choice(
                (one + other, one * known, one // known, one % known, one - other, excess(one - other))
            )
        )
    for _ in range(3):
        chosen.choice(numbers) >= chosen.randint(0, 50)  # noqa: B015 - becomes a guard
    builder = ProgramBuilder(scope)
    for number in numbers:
        builder.number(number)
    program = builder.result()
    by_arrays, native = ExtentEvaluation(program), sizing(program_of(program=program))
    for _ in range(30):
        lengths = [chosen.randint(0, 200), chosen.randint(0, 50)]
        expected, words = by_arrays.evaluate(lengths), native.evaluate(lengths)
        found = None if words is None else native.numbers(words).tolist()
        assert found == (None if expected is None else expected.tolist())


def test_what_is_too_large_or_divided_by_nothing_is_refused() -> None:
    power = ((1, (0,) * 8),)
    length = ((1, (0,)),)
    for changes in (
        {"values": (power,)},
        {"values": (((1 << 62, (0,)),),)},
        {"values": (((-(1 << 62), ()), (-1, (0,))),)},
        {"values": (((1 << 62, ()), (1 << 62, ()), (-(1 << 62), ())),)},
        {"divisions": (Division(1, length, ((1, (0,)), (-(1 << 20), ()))),)},
        {"divisions": (Division(2, length, ((-1, ()),)),)},
        {"bounds": ((2, 1 << 19),)},
    ):
        program = ExtentProgram(bounds=((2, 1 << 31),), divisions=(), guards=(), values=())
        program = msgspec.structs.replace(program, **changes)
        program.check()
        assert sizing(program_of(program=program)).evaluate([1 << 20]) is None


def test_sizes_refer_to_the_plan() -> None:
    subject = sizing(opened())
    for length, cost_ns in ((1, 2.5), (3, 7.5), (99, 247.5)):
        words = subject.evaluate([length])
        assert words is not None
        assert not subject.size(words, plan(1 << 20, 4096, 512))
        parts = subject.parts(words)
        assert parts.ports.tolist() == [-1, 4 * length, length, 4096, 4 * length, length]
        assert parts.offsets.tolist() == [24, 4097]
        assert parts.costs_ns.tolist() == [cost_ns]
        assert parts.cost_ns == cost_ns
        assert parts.records.tolist() == [[length, UNSHARED, length, RECORD_NS + -(-cost_ns // 1)]]
        assert parts.extents.tolist() == [100 - length, length]
        assert parts.scratch_bytes == 4 * length


def test_long_calls_have_the_largest_cost() -> None:
    words = (subject := sizing(opened())).evaluate([1 << 40])
    assert words is not None
    assert not subject.size(words, plan(1 << 50, 0, 1 << 50))
    assert subject.parts(words).records.tolist() == [[1 << 40, UNSHARED, 1 << 40, RECORD_NS + MAX_COST_NS]]


@pytest.mark.parametrize(
    ("place", "changes", "refusal"),
    [
        (plan(1 << 20, 4096, 39), {}, SizeRefusal.NO_ROOM),
        (plan(39, 0, 40), {}, SizeRefusal.WRONG_PORT),
        (plan(1 << 20, 0, 40), {"outputs": (OpenPort(0, 0, (0,)),)}, SizeRefusal.WRONG_PORT),
        (plan(1 << 20, 0, 40), {"outputs": (OpenPort(0, 1, (1,)),)}, SizeRefusal.WRONG_PORT),
        (plan(40, 40, 40), {"outputs": (OpenPort(-1, 1, (0,)),)}, SizeRefusal.OUTSIDE),
    ],
)
def test_sizes_outside_of_the_arena_are_refused(
    place: "array.array[int]", changes: dict[str, Any], refusal: SizeRefusal
) -> None:
    subject = sizing(opened(**changes))
    words = subject.evaluate([10])
    assert words is not None
    assert subject.size(words, place) == refusal
    assert subject.refused(refusal, words, 40)


def test_negative_places_and_costs_that_are_not_numbers_are_refused() -> None:
    below = opened(locations=((None, OpenLocation(0, 3)),))
    assert sizing(below).evaluate([101]) is None
    for cost_ns in (float("inf"), float("nan")):
        known = opened()
        calls = msgspec.structs.replace(known.template.calls, costs_ns=(cost_ns,))
        subject = sizing(opened(template=msgspec.structs.replace(known.template, calls=calls)))
        words = subject.evaluate([10])
        assert words is not None
        assert subject.size(words, plan(1 << 20, 0, 40)) == SizeRefusal.WRONG_COST
