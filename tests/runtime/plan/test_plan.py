"""Plans: steps, roles of the client's inputs and outputs, and the memory that devices prefer."""

import numpy as np
from support.errors import error_code
from support.models.plans import compiled, cpu, only
from support.models.small import FLOAT, add_model

import neurald as nd
from neurald.hal.memory.alignment import ALIGNMENT
from neurald.hal.model.types import FeatureLevel, value_size
from neurald.runtime.plan.plan import CompoundBody, MemoryPreference, PlanValue, SimpleBody

Op = nd.OperationType


def ladder() -> nd.Model:
    """Builds x, y -> (TANH(x), RELU(TANH(x)) + y, ABS(y)), whose first output is read again."""
    builder = nd.ModelBuilder()
    x, y = builder.add_operand(FLOAT, (2, 3)), builder.add_operand(FLOAT, (2, 3))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    first, between, second, third = (builder.add_operand(FLOAT, (2, 3)) for _ in range(4))
    builder.add_operation(Op.TANH, [x], [first])
    builder.add_operation(Op.RELU, [first], [between])
    builder.add_operation(Op.ADD, [between, y, none], [second])
    builder.add_operation(Op.ABS, [y], [third])
    builder.identify_inputs_and_outputs([x, y], [first, second, third])
    return builder.finish()


def test_one_device_gets_the_model_itself() -> None:
    model = add_model(operations=3)
    plan = compiled(model, cpu()).plan
    assert isinstance(plan.body, SimpleBody)
    (step,) = plan.steps
    assert step.model is model
    assert step.operations == (0, 1, 2)
    assert (step.inputs, step.outputs) == (model.main.inputs, model.main.outputs)
    assert plan.roles_of_input(1) == ((step, 1),)
    assert plan.roles_of_output(0) == ((step, 0),)
    assert plan.temporary_bytes == 0


def test_roles_in_a_compound_plan() -> None:
    plan = compiled(ladder(), only("a", Op.TANH, Op.ADD), only("b", Op.RELU, Op.ABS)).plan
    assert isinstance(plan.body, CompoundBody)

    def told(roles: object) -> list[tuple[str, tuple[int, ...], int]]:
        assert isinstance(roles, tuple)
        return [(step.device.name, step.operations, index) for step, index in roles]

    by_name = {(step.device.name, position): step for step in plan.steps for position in step.operations}
    model = ladder()
    position = {operation.type: n for n, operation in enumerate(model.main.operations)}
    tanh, relu = by_name["a", position[Op.TANH]], by_name["b", position[Op.RELU]]
    assert [step for step, _ in plan.roles_of_input(0)] == [tanh]
    assert {step.device.name for step, _ in plan.roles_of_input(1)} == {"a", "b"}
    assert [step for step, _ in plan.roles_of_output(0)] == [tanh]
    assert [step for step, _ in plan.reading_roles_of_output(0)] == [relu]
    for index in range(3):
        for step, role in plan.roles_of_output(index):
            assert step.outputs[role] == plan.model.outputs[index]
        assert len(told(plan.roles_of_output(index))) == 1
    for index in range(2):
        for step, role in plan.roles_of_input(index):
            assert step.inputs[role] == plan.model.inputs[index]


def test_there_is_no_such_input() -> None:
    plan = compiled(ladder(), only("a", Op.TANH, Op.ADD), only("b", Op.RELU, Op.ABS)).plan
    for call in (
        plan.roles_of_input,
        plan.preferred_memory_of_input,
    ):
        assert error_code(call, 2) is nd.ResultCode.BAD_DATA
        assert error_code(call, -1) is nd.ResultCode.BAD_DATA
    for call in (plan.roles_of_output, plan.reading_roles_of_output, plan.preferred_memory_of_output):
        assert error_code(call, 3) is nd.ResultCode.BAD_DATA


def test_the_strictest_wish_counts() -> None:
    old = only("a", Op.TANH, Op.ADD)
    old.feature_level = FeatureLevel.LEVEL_4
    plan = compiled(ladder(), old, only("b", Op.RELU, Op.ABS)).plan
    assert plan.preferred_memory_of_input(0) == MemoryPreference(alignment=ALIGNMENT, padding=1)
    plan = compiled(ladder(), only("a", Op.TANH, Op.ADD), only("b", Op.RELU, Op.ABS)).plan
    assert plan.preferred_memory_of_input(0) == MemoryPreference(alignment=64, padding=64)
    assert plan.preferred_memory_of_output(1) == MemoryPreference(alignment=64, padding=64)
    assert compiled(ladder(), cpu()).plan.preferred_memory_of_input(0).padding == 64


def test_the_peak_of_temporaries() -> None:
    kinds = [Op.TANH, Op.RELU] * 5
    builder = nd.ModelBuilder()
    values = [builder.add_operand(FLOAT, (10, 10)) for _ in range(len(kinds) + 1)]
    for number, kind in enumerate(kinds):
        builder.add_operation(kind, [values[number]], [values[number + 1]])
    builder.identify_inputs_and_outputs(values[:1], values[-1:])
    plan = compiled(builder.finish(), only("a", Op.TANH), only("b", Op.RELU)).plan
    assert isinstance(plan.body, CompoundBody)
    assert plan.temporary_bytes == 2 * 448
    assert plan.body.arena.unshared_bytes == 9 * 448


def test_sizes_that_are_not_known() -> None:
    assert value_size(FLOAT, (2, 3)) == 24
    assert value_size(FLOAT, (2, 0)) is None
    assert value_size(FLOAT, None) is None
    assert value_size(nd.OperandType.TENSOR_STRING, (2, 3)) is None
    value = PlanValue(graph=1, operand=3, type=FLOAT, dimensions=(2,))
    assert str(value) == "operand 3 of graph 1"
    assert value.size_bytes == np.zeros(2, np.float32).nbytes
