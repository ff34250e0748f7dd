"""IF and WHILE that the runtime interprets, so that their branches run on devices without control
flow.
"""

import threading

import numpy as np
import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice
from support.models.control_flow import (
    ADD,
    BOOL,
    MUL,
    Graph,
    arithmetic,
    below,
    branching,
    counting,
    loop,
)
from support.models.plans import (
    CONTROL_FLOW,
    Array,
    all_but,
    assert_same_as_on_cpu,
    compiled,
    cpu,
    only,
    program,
    request_for,
)
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.model.request import Request
from neurald.runtime.execution.program.executor import PlanExecutor, plan_executor
from neurald.runtime.partitioning.groups import IfGroup, StepGroup, WhileGroup
from neurald.runtime.plan.plan import CompoundBody, WhileStep
from neurald.runtime.plan.planner import make_plan
from neurald.runtime.plan.preparer import Preparer

IF, WHILE = nd.OperationType.IF, nd.OperationType.WHILE


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def test_if_on_a_device_without_control_flow() -> None:
    model = branching(arithmetic(ADD, 10), arithmetic(MUL, 10))
    compilation = compiled(model, cpu(), all_but("device", *CONTROL_FLOW))
    assert program(compilation) == ["If", "device", "Goto", "device"]
    for condition, expected in ((True, [13, 14]), (False, [30, 40])):
        (result,) = assert_same_as_on_cpu(model, compilation, np.array([condition]), floats(3, 4))
        np.testing.assert_array_equal(result, expected)


def test_while_on_a_device_without_control_flow() -> None:
    model = loop(below(5, extra=1), counting(1, 2))
    compilation = compiled(model, cpu(), all_but("device", *CONTROL_FLOW))
    assert program(compilation) == ["While", "device", "Goto", "device", "Goto"]
    for start, turns in ((0, 5), (4, 1), (3, 2), (5, 0)):
        counter, value = assert_same_as_on_cpu(model, compilation, floats(start), floats(1, 3))
        assert counter[0] == start + turns
        np.testing.assert_array_equal(value, [2**turns, 3 * 2**turns])


def test_a_device_with_control_flow_gets_it_whole() -> None:
    model = loop(below(5, extra=1), counting(1, 2))
    device = SampleDevice("able", performance=0.5)
    compilation = compiled(model, cpu(), device)
    assert compilation.plan.is_simple
    assert compilation.plan.steps[0].model is model
    assert_same_as_on_cpu(model, compilation, floats(0), floats(1, 1))


def test_branches_split_over_two_devices() -> None:
    model = loop(below(5, extra=1), counting(1, 2))
    compilation = compiled(model, cpu(), only("adder", ADD, nd.OperationType.LESS), only("multiplier", MUL))
    steps = program(compilation)
    assert steps[0] == "While"
    assert sorted(steps[3:-1]) == ["adder", "multiplier"]
    assert_same_as_on_cpu(model, compilation, floats(-3), floats(1, 3))


def nested() -> nd.Model:
    """Builds (n, x) -> WHILE n < 6: (n + 1, branch(n, x)), plus 1.

    The branch is IF n < 3 THEN (WHILE x[0] < 100: x * 3) ELSE x + 1.
    """
    condition = Graph()
    value = condition.value(shape=(1,))
    less = condition.value(BOOL, (1,))
    condition.builder.add_operation(nd.OperationType.LESS, [value, condition.constant([100])], [less])
    inner_condition = condition.finish([value], [less])

    inner = Graph()
    value, result = inner.value(shape=(1,)), inner.value(shape=(1,))
    inner.builder.add_operation(
        WHILE, [inner.model(inner_condition), inner.model(arithmetic(MUL, 3, (1,))), value], [result]
    )
    inner_loop = inner.finish([value], [result])

    body = Graph()
    counter, value = body.value(shape=(1,)), body.value(shape=(1,))
    is_early, chosen = body.value(BOOL, (1,)), body.value(shape=(1,))
    body.builder.add_operation(nd.OperationType.LESS, [counter, body.constant([3])], [is_early])
    body.builder.add_operation(
        IF, [is_early, body.model(inner_loop), body.model(arithmetic(ADD, 1, (1,))), value], [chosen]
    )
    counted = body.binary(ADD, counter, body.constant([1]), body.value(shape=(1,)))
    body_model = body.finish([counter, value], [counted, chosen])

    goes_on = Graph()
    counter, ignored = goes_on.value(shape=(1,)), goes_on.value(shape=(1,))
    less = goes_on.value(BOOL, (1,))
    goes_on.builder.add_operation(nd.OperationType.LESS, [counter, goes_on.constant([6])], [less])

    main = Graph()
    counter, value = main.value(shape=(1,)), main.value(shape=(1,))
    ends = [main.value(shape=(1,)), main.value(shape=(1,))]
    main.builder.add_operation(
        WHILE,
        [main.model(goes_on.finish([counter, ignored], [less])), main.model(body_model), counter, value],
        ends,
    )
    results = [main.binary(ADD, end, main.constant([1]), main.value(shape=(1,))) for end in ends]
    return main.finish([counter, value], results)


def test_nested_loops_and_branches() -> None:
    model = nested()
    compilation = compiled(model, cpu(), only("adder", ADD), only("other", MUL, nd.OperationType.LESS))
    assert program(compilation).count("While") == 2
    assert program(compilation).count("If") == 1
    for start in (0, 2, 5, 6):
        for value in (1.0, 200.0):
            assert_same_as_on_cpu(model, compilation, floats(start), floats(value))


def test_executions_at_the_same_time_do_not_meet() -> None:
    model = nested()
    compilation = compiled(model, cpu(), only("adder", ADD), only("other", MUL, nd.OperationType.LESS))
    starts = [(float(n % 5), float(n + 1)) for n in range(8)]
    expected = [compiled(model, cpu()).run(floats(a), floats(b)) for a, b in starts]
    wrong: list[int] = []

    def work(number: int) -> None:
        first, second = starts[number]
        for _ in range(10):
            results = compilation.run(floats(first), floats(second))
            if [r.tobytes() for r in results] != [e.tobytes() for e in expected[number]]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(starts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_invariant_and_state_only_values() -> None:
    """(n, hidden, step) -> WHILE n < 5: (n + step, hidden * 2), of which only n comes out."""
    body = Graph()
    counter, hidden, step = (body.value(shape=(1,)) for _ in range(3))
    body_model = body.finish(
        [counter, hidden, step],
        [
            body.binary(ADD, counter, step, body.value(shape=(1,))),
            body.binary(MUL, hidden, body.constant([2]), body.value(shape=(1,))),
        ],
    )
    condition = Graph()
    values = [condition.value(shape=(1,)) for _ in range(3)]
    less = condition.value(BOOL, (1,))
    condition.builder.add_operation(nd.OperationType.LESS, [values[0], condition.constant([5])], [less])
    main = Graph()
    counter, hidden = main.value(shape=(1,)), main.value(shape=(1,))
    end = main.value(shape=(1,))
    main.builder.add_operation(
        WHILE,
        [
            main.model(condition.finish(values, [less])),
            main.model(body_model),
            counter,
            hidden,
            main.constant([2]),
        ],
        [end],
    )
    model = main.finish([counter, hidden], [end])
    compilation = compiled(model, cpu(), all_but("device", *CONTROL_FLOW))
    (result,) = assert_same_as_on_cpu(model, compilation, floats(0), floats(1))
    assert result[0] == 6


@sweep("devices", ["cpu", "split"])
def test_a_loop_that_never_ends_is_stopped(devices: str) -> None:
    model = loop(below(5, extra=1), counting(0, 1))
    chosen = [cpu()] if devices == "cpu" else [cpu(), all_but("device", *CONTROL_FLOW)]
    execution = nd.Execution(compiled(model, *chosen), reusable=True)
    execution.set_loop_timeout(0.02)
    for position, shape in enumerate(((1,), (2,))):
        execution.set_input(position, np.zeros(shape, np.float32))
        execution.set_output(position, np.zeros(shape, np.float32))
    for _ in range(2):
        with pytest.raises(nd.Error, match=r"WHILE.* its loop timeout; .* takes up to 15 s") as caught:
            execution.compute()
        assert caught.value.code is nd.ResultCode.MISSED_DEADLINE_TRANSIENT


class FailingOnce(SampleDevice):
    """A device whose models fail in their first execution; counts later ones."""

    def __init__(self, name: str, *types: nd.OperationType) -> None:
        super().__init__(name, performance=0.5, supports=lambda kind: kind in types)
        self.failures = 0
        self.runs = 0

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.runs += 1
                if not device.failures:
                    device.failures += 1
                    raise OpFailed("as told")
                return prepared.execute(request, options)

        return Prepared()


def test_a_failing_step_after_a_loop_does_not_run_the_loop_again(monkeypatch: pytest.MonkeyPatch) -> None:
    main = Graph()
    counter, value = main.value(shape=(1,)), main.value()
    ends = [main.value(shape=(1,)), main.value()]
    condition, body = below(5, extra=1), counting(1, 2)
    main.builder.add_operation(WHILE, [main.model(condition), main.model(body), counter, value], ends)
    result = main.value()
    main.builder.add_operation(nd.OperationType.TANH, [ends[1]], [result])
    model = main.finish([counter, value], [result])
    looping, failing = (
        FailingOnce("looping", ADD, MUL, nd.OperationType.LESS),
        FailingOnce("failing", nd.OperationType.TANH),
    )
    looping.failures = 1
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), looping, failing))
    compilation = nd.CompilationBuilder(model).finish()
    assert program(compilation) == ["While", "looping", "Goto", "looping", "Goto", "failing"]
    (output,) = compilation.run(floats(0), floats(0.01, 0.02))
    np.testing.assert_array_equal(output, compiled(model, cpu()).run(floats(0), floats(0.01, 0.02))[0])
    assert failing.failures == 1
    assert looping.runs == 6 + 5


def test_roles_through_branches() -> None:
    model = nested()
    compilation = compiled(model, cpu(), only("adder", ADD), only("other", MUL, nd.OperationType.LESS))
    plan = compilation.plan
    roles = [
        [(plan.steps.index(step), step.device.name, step.inputs[index]) for step, index in found]
        for found in (plan.roles_of_input(0), plan.roles_of_input(1))
    ]
    assert {name for _, name, _ in roles[0]} == {"adder", "other"}
    assert all(step.graph != 0 for found in (0, 1) for step, _ in plan.roles_of_input(found))
    assert [step.graph for step, _ in plan.roles_of_output(0)] == [0]
    with pytest.raises(nd.Error):
        plan.roles_of_input(2)


def test_what_a_loop_gives_back_is_written_by_no_step() -> None:
    compilation = compiled(loop(below(5, extra=1), counting(1, 2)), cpu(), all_but("device", *CONTROL_FLOW))
    assert compilation.plan.roles_of_output(0) == ()
    condition, body = compilation.plan.steps
    assert compilation.plan.roles_of_input(0) == ((condition, 0), (body, 0))


def test_what_a_loop_carries_never_shares_bytes() -> None:
    compilation = compiled(nested(), cpu(), only("adder", ADD), only("other", MUL, nd.OperationType.LESS))
    body = compilation.plan.body
    assert isinstance(body, CompoundBody)
    for step in body.program:
        if isinstance(step, WhileStep):
            places = [body.arena.offsets[n] for n in (*step.results, *step.spares)]
            assert len(set(places)) == len(places)


def growing_loop() -> nd.Model:
    """Builds (n, x) -> WHILE n < 5: (n + 1, x with a 1 in front), whose value grows in each
    iteration.
    """
    body = Graph()
    counter, value = body.value(shape=(1,)), body.value(shape=(0,))
    joined = body.value(shape=(0,))
    axis = body.builder.add_operand(nd.OperandType.INT32)
    body.builder.set_operand_value(axis, 0)
    body.builder.add_operation(nd.OperationType.CONCATENATION, [body.constant([1]), value, axis], [joined])
    counted = body.binary(ADD, counter, body.constant([1]), body.value(shape=(1,)))
    body_model = body.finish([counter, value], [counted, joined])
    condition = Graph()
    counter, ignored = condition.value(shape=(1,)), condition.value(shape=(0,))
    less = condition.value(BOOL, (1,))
    condition.builder.add_operation(nd.OperationType.LESS, [counter, condition.constant([5])], [less])
    main = Graph()
    counter, value = main.value(shape=(1,)), main.value(shape=(0,))
    ends = [main.value(shape=(1,)), main.value(shape=(0,))]
    main.builder.add_operation(
        WHILE,
        [main.model(condition.finish([counter, ignored], [less])), main.model(body_model), counter, value],
        ends,
    )
    return main.finish([counter, value], ends)


def interpreted_loop(model: nd.Model) -> PlanExecutor:
    """Builds a plan that interprets the only WHILE of a model, even if partitioning would not."""
    graphs = (model.main, *model.referenced)
    condition, body = (
        number
        for index in model.main.operations[0].inputs
        for number in [model.main.operands[index].subgraph]
        if number is not None
    )

    def whole(number: int) -> StepGroup:
        return StepGroup(graph=number, device=0, operations=tuple(range(len(graphs[number].operations))))

    group = WhileGroup(
        graph=0, operation=0, condition_groups=(whole(condition + 1),), body_groups=(whole(body + 1),)
    )
    planned = make_plan(
        model, [group], [SampleDevice("device")], Preparer(PrepareOptions()), may_fall_back=False
    )
    assert not planned.plan.is_simple
    return plan_executor(planned.plan)


def loop_request(value: Array, room: int) -> tuple[Request, Array, Array]:
    count, result = floats(9), np.zeros(room, np.float32)
    return request_for([floats(0), value], [count, result]), count, result


@sweep("size", [0, 1, 40])
def test_a_carried_value_may_grow(size: int) -> None:
    executor = interpreted_loop(growing_loop())
    value = np.arange(size, dtype=np.float32)
    for _ in range(2):
        request, count, result = loop_request(value, size + 5)
        shapes = executor.execute(request, ExecuteOptions()).output_shapes
        assert [shape.dimensions for shape in shapes] == [(1,), (size + 5,)]
        assert count[0] == 5
        assert result.tolist() == [1.0] * 5 + value.tolist()


def test_the_result_of_a_loop_that_does_not_fit() -> None:
    executor = interpreted_loop(growing_loop())
    request, _, _ = loop_request(floats(3, 4), 6)
    outcome = executor.execute(request, ExecuteOptions())
    assert [shape.sufficient for shape in outcome.output_shapes] == [True, False]
    assert outcome.output_shapes[1].dimensions == (7,)


def test_a_branch_that_knows_its_shape_and_a_buffer_that_is_too_small() -> None:
    graph = Graph()
    condition, source = graph.value(BOOL, (1,)), graph.value(shape=(0,))
    output = graph.value(shape=(0,))
    graph.builder.add_operation(
        IF, [condition, graph.model(arithmetic(ADD, 1)), graph.model(arithmetic(MUL, 2)), source], [output]
    )
    model = graph.finish([condition, source], [output])
    groups = IfGroup(
        graph=0,
        operation=0,
        then_groups=(StepGroup(graph=1, device=0, operations=(0,)),),
        else_groups=(StepGroup(graph=2, device=0, operations=(0,)),),
    )
    planned = make_plan(model, [groups], [cpu()], Preparer(PrepareOptions()), may_fall_back=False)
    executor = plan_executor(planned.plan)

    def request(value: Array, room: int) -> tuple[Request, Array]:
        result = np.zeros(room, np.float32)
        return request_for([np.array([True]), value], [result]), result

    small, _ = request(floats(1, 2), 1)
    (shape,) = executor.execute(small, ExecuteOptions()).output_shapes
    assert (shape.dimensions, shape.sufficient) == ((2,), False)
    large, result = request(floats(1, 2), 5)
    (shape,) = executor.execute(large, ExecuteOptions()).output_shapes
    assert (shape.dimensions, shape.sufficient) == ((2,), True)
    assert result.tolist() == [2, 3, 0, 0, 0]
    wrong, _ = request(floats(1, 2, 3), 5)
    with pytest.raises(nd.Error, match=r"has shape \[3\]; \[2\] is declared"):
        executor.execute(wrong, ExecuteOptions())


def test_a_condition_of_two_elements() -> None:
    graph = Graph()
    condition, source, output = graph.value(BOOL, (0,)), graph.value(), graph.value()
    graph.builder.add_operation(
        IF, [condition, graph.model(arithmetic(ADD, 1)), graph.model(arithmetic(MUL, 2)), source], [output]
    )
    model = graph.finish([condition, source], [output])
    groups = IfGroup(
        graph=0,
        operation=0,
        then_groups=(StepGroup(graph=1, device=0, operations=(0,)),),
        else_groups=(StepGroup(graph=2, device=0, operations=(0,)),),
    )
    planned = make_plan(model, [groups], [cpu()], Preparer(PrepareOptions()), may_fall_back=False)
    request = request_for([np.array([True, False]), floats(1, 2)], [floats(0, 0)])
    with pytest.raises(nd.Error, match="the condition of IF has 2 elements") as caught:
        plan_executor(planned.plan).execute(request, ExecuteOptions())
    assert caught.value.code is nd.ResultCode.OP_FAILED
