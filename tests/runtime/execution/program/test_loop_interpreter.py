"""Loops that do not end, steps that fail around loops, and nesting over devices and daemons, in
every mode.

Restates TestControlFlow, TestFailingDriver and InfiniteLoopTimeout of VTS. The layout of plans with
control flow is tested in `test_control_flow_plans`.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice
from support.devices.modes import MODES, compute
from support.errors import error_code
from support.models.control_flow import ADD, BOOL, MUL, Graph, arithmetic, below, counting, loop
from support.models.plans import CONTROL_FLOW, Array, all_but, compiled, cpu, only, program
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import (
    DEFAULT_LOOP_TIMEOUT_S,
    MAX_LOOP_TIMEOUT_S,
    ExecuteOptions,
    ExecutionResult,
    PreparedModel,
)
from neurald.hal.errors import Cancelled, OpFailed
from neurald.hal.model.request import Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer
from neurald.runtime.execution.recovery import retry
from neurald.runtime.execution.recovery.retry import RetryPolicy

IF, WHILE, LESS, TANH = (
    nd.OperationType.IF,
    nd.OperationType.WHILE,
    nd.OperationType.LESS,
    nd.OperationType.TANH,
)
MISSED = (nd.ResultCode.MISSED_DEADLINE_TRANSIENT, nd.ResultCode.MISSED_DEADLINE_PERSISTENT)

Reach = Callable[[SampleDevice], nd.Device]


@pytest.fixture(params=["in process", "behind sockets"])
def reach(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reach]:
    """Returns the device as a client sees it: in this process or through a daemon."""
    servers: list[DeviceServer] = []

    def connect(device: SampleDevice) -> nd.Device:
        if request.param == "in process":
            return device
        servers.append(DeviceServer(device, Address.parse(f"unix://{tmp_path}/{len(servers)}.sock")))
        servers[-1].start()
        return nd.connect(str(servers[-1].address))

    yield connect
    for server in servers:
        server.stop()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes failed devices be retried at once."""
    for policy in ("DEAD_RETRY", "FAILING_RETRY"):
        monkeypatch.setattr(retry, policy, RetryPolicy(first_pause_s=0.0, max_pause_s=0.0))


class NumberedDevice(SampleDevice):
    """Counts its executions, records their options, and fails in those whose numbers are in
    `failing`.
    """

    def __init__(self, name: str, *types: nd.OperationType, failing: frozenset[int] = frozenset()) -> None:
        supports = (lambda kind: kind in types) if types else (lambda _: True)
        super().__init__(name, performance=0.5, supports=supports)
        self.failing = failing
        self.runs = 0
        self.options: list[ExecuteOptions] = []

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.runs += 1
                device.options.append(options)
                if device.runs in device.failing:
                    raise OpFailed("as told")
                return prepared.execute(request, options)

        return Prepared()


def with_fallback(model: nd.Model, monkeypatch: pytest.MonkeyPatch, *devices: nd.Device) -> nd.Compilation:
    """Compiles the model for these devices; the CPU device may take over."""
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), *devices))
    builder = nd.CompilationBuilder(model)
    builder.set_caching(None)
    return builder.finish()


def bound(compilation: nd.Compilation, *inputs: Array) -> tuple[nd.Execution, list[Array]]:
    """Returns a reusable execution with these inputs, and its outputs."""
    execution = nd.Execution(compilation, reusable=True)
    for position, array in enumerate(inputs):
        execution.set_input(position, array)
    graph = compilation.model.main
    outputs = [
        np.zeros(graph.operands[index].dimensions or (), graph.operands[index].type.dtype)
        for index in compilation.model.outputs
    ]
    for position, output in enumerate(outputs):
        execution.set_output(position, output)
    return execution, outputs


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


# Loops that do not end


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("placed", ["whole", "interpreted"])
@pytest.mark.parametrize("listed", ["explicit list", "fallback"])
def test_a_counter_that_never_reaches_its_bound(
    listed: str, placed: str, mode: str, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loop(below(5, extra=1), counting(0, 1))
    device = reach(NumberedDevice("able") if placed == "whole" else all_but("flat", *CONTROL_FLOW))
    if listed == "fallback":
        compilation = with_fallback(model, monkeypatch, device)
    else:
        compilation = compiled(model, cpu(), device)
    assert compilation.plan.is_simple is (placed == "whole")
    counter = floats(0)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_loop_timeout(0.001)
    execution.set_input(0, counter)
    execution.set_input(1, floats(1, 2))
    outputs = [floats(0), floats(0, 0)]
    for position, output in enumerate(outputs):
        execution.set_output(position, output)
    for _ in range(2):
        assert error_code(compute, execution, mode) in MISSED
        assert error_code(execution.output_shapes) is nd.ResultCode.BAD_STATE
    # The timeout has no effect on a later execution in which the loop ends.
    counter[:] = 5
    compute(execution, mode)
    assert [output.tolist() for output in outputs] == [[5], [1, 2]]


@sweep("placed", ["whole", "interpreted"])
def test_no_time_for_a_loop_is_enough_for_none(placed: str) -> None:
    model = loop(below(5, extra=1), counting(1, 1))
    device = NumberedDevice("able") if placed == "whole" else all_but("flat", *CONTROL_FLOW)
    counter = floats(4)
    execution, outputs = bound(compiled(model, cpu(), device), counter, floats(1, 2))
    execution.set_loop_timeout(0)
    assert error_code(execution.compute) in MISSED
    counter[:] = 5
    execution.compute()
    assert outputs[0].tolist() == [5]


@pytest.mark.parametrize("mode", MODES)
def test_default_and_maximum(mode: str, reach: Reach) -> None:
    assert (DEFAULT_LOOP_TIMEOUT_S, MAX_LOOP_TIMEOUT_S) == (2.0, 15.0)
    device = NumberedDevice("able")
    compilation = compiled(loop(below(5, extra=1), counting(1, 2)), reach(device))
    for wanted, expected in ((None, 2.0), (0.5, 0.5), (15, 15.0), (15.5, 15.0), (float("inf"), 15.0)):
        execution, outputs = bound(compilation, floats(0), floats(1, 3))
        if wanted is not None:
            execution.set_loop_timeout(wanted)
        compute(execution, mode)
        assert [output.tolist() for output in outputs] == [[5], [32, 96]]
        assert device.options[-1].loop_timeout_s == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("placed", ["whole", "interpreted"])
@pytest.mark.sampled(2)
def test_a_deadline_ends_a_loop_before_its_own_time(placed: str, mode: str, reach: Reach) -> None:
    device = reach(NumberedDevice("able") if placed == "whole" else all_but("flat", *CONTROL_FLOW))
    compilation = compiled(loop(below(5, extra=1), counting(0, 1)), cpu(), device)
    execution, _ = bound(compilation, floats(0), floats(1, 2))
    execution.set_loop_timeout(15)
    execution.set_timeout(0.2)
    assert error_code(compute, execution, mode) in MISSED


# Steps that fail


def loop_then_tanh() -> nd.Model:
    """Builds (n, x) -> tanh(x after WHILE n < 5: n + 1, x * 2)."""
    main = Graph()
    counter, value = main.value(shape=(1,)), main.value()
    ends = [main.value(shape=(1,)), main.value()]
    graphs = [main.model(below(5, extra=1)), main.model(counting(1, 2))]
    main.builder.add_operation(WHILE, [*graphs, counter, value], ends)
    result = main.value()
    main.builder.add_operation(TANH, [ends[1]], [result])
    return main.finish([counter, value], [result])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("in_loop", "after", "runs"),
    [
        (frozenset(), frozenset({1}), (11, 1)),
        (frozenset(), frozenset({1, 2}), (11, 1)),
        (frozenset({1}), frozenset(), (11, 1)),
        (frozenset({6, 7}), frozenset({1}), (11, 1)),
        (frozenset(range(1, 100)), frozenset({1}), (11, 1)),
    ],
)
@pytest.mark.sampled(4)
def test_exactly_the_step_that_failed_is_done_again(
    in_loop: frozenset[int],
    after: frozenset[int],
    runs: tuple[int, int],
    mode: str,
    reach: Reach,
    monkeypatch: pytest.MonkeyPatch,
    no_pauses: None,
) -> None:
    """Whatever fails, the condition runs six times and the body five times: the loop is not
    repeated.
    """
    model = loop_then_tanh()
    looping = NumberedDevice("looping", ADD, MUL, LESS, failing=in_loop)
    last = NumberedDevice("last", TANH, failing=after)
    first, second = reach(looping), reach(last)
    compilation = with_fallback(model, monkeypatch, first, second)
    names = [first.name, second.name]
    assert program(compilation) == ["While", names[0], "Goto", names[0], "Goto", names[1]]
    arrays = floats(0), floats(0.01, 0.02)
    execution, (output,) = bound(compilation, *arrays)
    compute(execution, mode)
    assert (looping.runs, last.runs) == runs
    expected = compiled(model, cpu()).run(*arrays)[0]
    assert output.tobytes() == expected.tobytes()
    looping.failing = last.failing = frozenset()
    compute(execution, mode)
    assert (looping.runs, last.runs) == (22, 2)
    assert output.tobytes() == expected.tobytes()
    assert compilation.recovery.fallbacks == ()


def test_a_failing_step_without_fallback_ends_the_execution(reach: Reach) -> None:
    looping = NumberedDevice("looping", ADD, MUL, LESS, failing=frozenset({7}))
    last = NumberedDevice("last", TANH)
    compilation = compiled(loop_then_tanh(), cpu(), reach(looping), reach(last))
    execution, _ = bound(compilation, floats(0), floats(1, 2))
    assert error_code(execution.compute) is nd.ResultCode.OP_FAILED
    assert (looping.runs, last.runs) == (7, 0)
    execution.compute()
    assert (looping.runs, last.runs) == (18, 1)


# Nesting


def if_while_if() -> nd.Model:
    """Builds (c, n, x) -> IF c THEN loop(n, x) ELSE x * 0.25, plus 1.

    The loop is WHILE n < 5: n + 1, IF n < 2 THEN x * 3 ELSE x + 0.5.
    """
    body = Graph()
    counter, value = body.value(shape=(1,)), body.value()
    is_early, chosen = body.value(BOOL, (1,)), body.value()
    body.builder.add_operation(LESS, [counter, body.constant([2])], [is_early])
    branches = [body.model(arithmetic(MUL, 3)), body.model(arithmetic(ADD, 0.5))]
    body.builder.add_operation(IF, [is_early, *branches, value], [chosen])
    counted = body.binary(ADD, counter, body.constant([1]), body.value(shape=(1,)))
    then = loop(below(5, extra=1), body.finish([counter, value], [counted, chosen]))

    otherwise = Graph()
    counter, value = otherwise.value(shape=(1,)), otherwise.value()
    results = [
        otherwise.binary(ADD, counter, otherwise.constant([0]), otherwise.value(shape=(1,))),
        otherwise.binary(MUL, value, otherwise.constant([0.25]), otherwise.value()),
    ]
    main = Graph()
    condition = main.value(BOOL, (1,))
    inputs, ends = ([main.value(shape=(1,)), main.value()] for _ in range(2))
    graphs = [main.model(then), main.model(otherwise.finish([counter, value], results))]
    main.builder.add_operation(IF, [condition, *graphs, *inputs], ends)
    outputs = [main.value(shape=(1,)), main.value()]
    for end, output in zip(ends, outputs, strict=True):
        main.binary(ADD, end, main.constant([1]), output)
    return main.finish([condition, *inputs], outputs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sampled(2)
def test_if_in_while_in_if_over_two_devices(mode: str, reach: Reach) -> None:
    model = if_while_if()
    devices = reach(only("adder", ADD)), reach(only("other", MUL, LESS))
    compilation = compiled(model, cpu(), *devices)
    steps = program(compilation)
    assert (steps.count("If"), steps.count("While")) == (2, 1)
    assert {step for step in steps if step not in ("If", "While", "Goto")} == {d.name for d in devices}
    reference = compiled(model, cpu())
    condition, counter, value = np.array([True]), floats(0), floats(1, -2)
    execution, outputs = bound(compilation, condition, counter, value)
    for holds, start in ((True, 0), (True, 4), (False, 0), (True, 9), (True, -3)):
        condition[:], counter[:] = holds, start
        compute(execution, mode)
        expected = reference.run(condition, counter, value)
        assert [output.tobytes() for output in outputs] == [each.tobytes() for each in expected]


def factorial(limit: float) -> nd.Model:
    """Builds (n, x) -> WHILE n < limit: n, x = n + 1, x * n."""
    body = Graph()
    counter, value = body.value(shape=(1,)), body.value()
    results = [
        body.binary(ADD, counter, body.constant([1]), body.value(shape=(1,))),
        body.binary(MUL, value, counter, body.value()),
    ]
    return loop(below(limit, extra=1), body.finish([counter, value], results))


@pytest.mark.parametrize("mode", MODES)
def test_a_step_reads_the_value_that_an_earlier_step_of_the_body_replaces(mode: str, reach: Reach) -> None:
    adder = reach(only("adder", ADD))
    compilation = compiled(factorial(6), cpu(), adder)
    steps = program(compilation)
    assert "cpu" in steps[steps.index(adder.name) :]
    execution, outputs = bound(compilation, floats(1), floats(1, -2))
    compute(execution, mode)
    assert [output.tolist() for output in outputs] == [[6], [120, -240]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sampled(2)
def test_nesting_with_failures_in_every_place(
    mode: str, reach: Reach, monkeypatch: pytest.MonkeyPatch, no_pauses: None
) -> None:
    model = if_while_if()
    adder, other = NumberedDevice("adder", ADD), NumberedDevice("other", MUL, LESS)
    compilation = with_fallback(model, monkeypatch, reach(adder), reach(other))
    arrays = np.array([True]), floats(0), floats(1, -2)
    expected = [output.tobytes() for output in compiled(model, cpu()).run(*arrays)]
    execution, outputs = bound(compilation, *arrays)
    compute(execution, mode)
    usual = adder.runs, other.runs
    for device, count in ((adder, usual[0]), (other, usual[1])):
        for number in range(1, count + 1):
            adder.runs = other.runs = 0
            adder.failing = other.failing = frozenset()
            device.failing = frozenset({number})
            for output in outputs:
                output[:] = 0
            compute(execution, mode)
            assert [output.tobytes() for output in outputs] == expected
            assert (adder.runs, other.runs) == usual


@pytest.mark.parametrize("mode", MODES)
def test_a_loop_on_a_device_can_be_cancelled(mode: str, reach: Reach) -> None:
    device = NumberedDevice("able")
    compilation = compiled(loop(below(5, extra=1), counting(0, 1)), reach(device))
    execution, _ = bound(compilation, floats(0), floats(1, 2))
    execution.set_loop_timeout(15)
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(compute, execution, mode)
        while not device.runs:
            assert not under_way.done()
        execution.cancel()
        assert isinstance(under_way.exception(30), Cancelled)
    assert error_code(execution.output_shapes) is nd.ResultCode.BAD_STATE
