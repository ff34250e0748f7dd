"""Positions and numbers in results, arguments and messages are those of the application."""

import itertools
import random
import re
from collections.abc import Iterator

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.devices.misbehaving import FailingDevice
from support.models.control_flow import Graph, below, branching, counting
from support.models.plans import all_but, cpu, only
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.opencl.device import create as create_opencl
from neurald.hal import registry
from neurald.hal.errors import DeadObject
from neurald.hal.model.types import FeatureLevel
from neurald.runtime.explain.explanation import Explanation

F32, I32, SCALAR = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32, nd.OperandType.INT32
#: Operations with one input, which may come in any order.
UNARY = (nd.OperationType.RELU, nd.OperationType.TANH, nd.OperationType.FLOOR, nd.OperationType.ABS)
BINARY = (nd.OperationType.ADD, nd.OperationType.MUL, nd.OperationType.SUB, nd.OperationType.MAXIMUM)


class Shuffled:
    """A random model whose operations and operands were added in random order.

    Attributes:
        types: types of the operations, in the order in which they were added.
        reads, writes: the operands of each operation, in that order.
    """

    def __init__(self, seed: int, count: int = 9) -> None:
        rng = random.Random(seed)
        values = 2 + count
        lines = []
        for step in range(count):
            result = 2 + step
            kind = rng.choice((*UNARY, *BINARY))
            inputs = [rng.randrange(result) for _ in range(1 + (kind in BINARY))]
            lines.append((kind, inputs, result))
        builder = nd.ModelBuilder()
        names = rng.sample(range(values), values)
        index = {}
        for value in names:
            if rng.random() < 0.5:
                builder.add_operand(F32, (7,))  # an operand that no operation uses
            index[value] = builder.add_operand(F32, (2, 3), name=f"v{value}")
        none = builder.add_operand(SCALAR)
        builder.set_operand_value(none, 0)
        rng.shuffle(lines)
        self.types = [kind for kind, _, _ in lines]
        self.reads = [[index[each] for each in inputs] for _, inputs, _ in lines]
        self.writes = [index[result] for _, _, result in lines]
        for kind, reads, write in zip(self.types, self.reads, self.writes, strict=True):
            fused = [none] if kind in BINARY and kind is not nd.OperationType.MAXIMUM else []
            builder.add_operation(kind, [*reads, *fused], [write])
        read = {each for reads in self.reads for each in reads}
        builder.identify_inputs_and_outputs(
            [index[0], index[1]], [each for each in self.writes if each not in read]
        )
        self.model = builder.finish()


def explained(
    model: nd.Model, devices: list[nd.Device], *overrides: object
) -> tuple[nd.Compilation, Explanation]:
    builder = nd.CompilationBuilder(model, devices)
    builder.set_partitioning(nd.Partitioning(overrides=tuple(overrides)))  # type: ignore[arg-type]
    compilation = builder.finish()
    return compilation, compilation.explain()


@sweep("seed", range(8), full=range(8, 25))
@pytest.mark.usefixtures("compiles_here")
def test_every_position_is_the_applications(seed: int) -> None:
    subject = Shuffled(seed)
    taken = random.Random(seed).sample(UNARY + BINARY, 4)
    special = only("special", *taken)
    verdicts = nd.supported_operations(subject.model, [cpu(), special])["special"]
    assert [verdict.ok for verdict in verdicts] == [kind in taken for kind in subject.types]

    compilation, told = explained(subject.model, [cpu(), special])
    assert [o.operation for o in told.operations] == list(range(len(subject.types)))
    assert [o.type for o in told.operations] == [kind.name for kind in subject.types]
    for o in told.operations:
        assert o.device == ("special" if subject.types[o.operation] in taken else "cpu")
        assert set(o.after) == {
            subject.writes.index(each) for each in subject.reads[o.operation] if each in subject.writes
        }
        assert o.operation in told.steps[o.steps[0]].operations
        assert f"operation {o.operation} {o.type} ->" in told.text()
    assert sorted(itertools.chain(*(step.operations for step in compilation.plan.steps))) == [
        o.operation for o in told.operations
    ]
    for shown, step in zip(told.steps, compilation.plan.steps, strict=True):
        assert shown.operations == step.operations
        assert [each.type for each in step.model.main.operations] == [
            subject.types[number] for number in step.operations
        ]
        written = {subject.writes[number] for number in step.operations}
        assert {value.operand for value in shown.outputs} <= written
        assert all(value.name for value in (*shown.inputs, *shown.outputs))
    for transfer in told.transfers:
        assert transfer.value.operand in subject.writes

    arrays = [np.ones((2, 3), np.float32), np.full((2, 3), -0.5, np.float32)]
    whole = nd.CompilationBuilder(subject.model, [cpu()]).finish()
    for expected, found in zip(whole.run(*arrays), compilation.run(*arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for profile in (*compilation.profile(), *whole.profile()):
        for kernel in profile.kernels:
            for number in kernel.operations if kernel.is_reference else ():
                assert kernel.name == subject.types[number].name
            assert set(kernel.operations) <= set(profile.operations)


@sweep("seed", range(10))
def test_positions_that_are_taken_are_the_applications(seed: int) -> None:
    subject = Shuffled(seed)
    chosen = random.Random(seed).randrange(len(subject.types))
    other = all_but("other", performance=2.0)
    _, told = explained(subject.model, [cpu(), other], nd.pin("other", [chosen]))
    assert [o.operation for o in told.operations if o.device == "other"] == [chosen]
    _, told = explained(subject.model, [cpu(), all_but("quick")], nd.forbid("quick", chosen))
    assert [o.operation for o in told.operations if o.device == "cpu"] == [chosen]
    with pytest.raises(nd.Error, match="there is no operation 9; the model has 9"):
        explained(subject.model, [cpu(), other], nd.pin("other", [9]))
    none = only("none")
    with pytest.raises(nd.Error, match=rf"operation {chosen} {subject.types[chosen].name}\b"):
        explained(subject.model, [cpu(), none], nd.pin("none", [chosen]))


def test_an_order_that_is_right_is_kept() -> None:
    graph = Graph()
    x = graph.value()
    results = [graph.value() for _ in range(3)]
    kinds = (nd.OperationType.ABS, nd.OperationType.TANH, nd.OperationType.FLOOR)
    for kind, result in zip(kinds, results, strict=True):
        graph.builder.add_operation(kind, [x], [result])
    graph.builder.identify_inputs_and_outputs([x], results)
    assert [each.type for each in graph.builder.finish().main.operations] == list(kinds)


def test_older_devices_answer_for_the_right_operations() -> None:
    builder = nd.ModelBuilder()
    a, b, c, x = (builder.add_operand(F32, (2,)) for _ in range(4))
    builder.add_operation(nd.OperationType.SQRT, [b], [c])
    builder.add_operation(nd.OperationType.RELU, [a], [b])
    builder.add_operation(nd.OperationType.FLOOR, [x], [a])
    builder.identify_inputs_and_outputs([x], [c])
    old = only("old", nd.OperationType.FLOOR)
    old.feature_level = FeatureLevel.LEVEL_2
    verdicts = nd.supported_operations(builder.finish(), [old])["old"]
    assert [verdict.ok for verdict in verdicts] == [False, False, True]
    assert "newer" in verdicts[0].reason


def test_validation_names_the_applications_operands() -> None:
    builder = nd.ModelBuilder()
    builder.add_operand(F32, (9,))  # an operand that no operation uses
    x, y, axis, z = (
        builder.add_operand(F32, (2, 3)),
        builder.add_operand(F32, (4, 3)),
        builder.add_operand(SCALAR),
        builder.add_operand(F32, (6, 3)),
    )
    t = builder.add_operand(F32, (6, 3))
    builder.set_operand_value(axis, 1)
    builder.add_operation(nd.OperationType.FLOOR, [z], [t])
    builder.add_operation(nd.OperationType.CONCATENATION, [x, y, axis], [z])
    builder.identify_inputs_and_outputs([x, y], [t])
    with pytest.raises(nd.Error, match=r"operation 1 CONCATENATION: operand 2 \(inputs\[1\]"):
        builder.finish()


def gathering() -> nd.Model:
    """Builds a GATHER that is added as operation 1 of 3, before the operations it depends on.

    Its indices are operand 5.
    """
    builder = nd.ModelBuilder()
    builder.add_operand(F32, (9,))  # an operand that no operation uses
    x, moved, gathered, out = (builder.add_operand(F32, (4,)) for _ in range(4))
    indices = builder.add_operand(I32, (4,))
    axis = builder.add_operand(SCALAR)
    builder.set_operand_value(axis, 0)
    builder.add_operation(nd.OperationType.TANH, [gathered], [out])
    builder.add_operation(nd.OperationType.GATHER, [moved, axis, indices], [gathered])
    builder.add_operation(nd.OperationType.FLOOR, [x], [moved])
    builder.identify_inputs_and_outputs([x, indices], [out])
    return builder.finish()


WRONG = (np.zeros(4, np.float32), np.array([0, 1, 9, 0], np.int32))
NAMED = r"(operation|,) 1 GATHER.*operand 5 \(indices of GATHER\)"


@pytest.fixture(params=["reference", "compiled", "opencl", "sample", "daemon"])
def gatherer(request: pytest.FixtureRequest) -> Iterator[nd.Device]:
    """Returns a device, other than the CPU device, that runs GATHER."""
    if request.param == "daemon":
        with running_daemon("cpu") as address:
            yield nd.connect(address)
    elif request.param == "opencl":
        yield create_opencl()
    elif request.param == "sample":
        yield registry.create_device("sample-all")
    else:
        device = CpuDevice(compiles=request.param == "compiled")
        device.name = "other"
        yield device


def test_errors_of_steps_name_what_the_application_added(gatherer: nd.Device) -> None:
    rules = (
        nd.pin(gatherer.name, operation_type=nd.OperationType.GATHER),
        nd.pin("cpu", operation_type=nd.OperationType.FLOOR),
        nd.pin("cpu", operation_type=nd.OperationType.TANH),
    )
    compilation, _ = explained(gathering(), [cpu(), gatherer], *rules)
    assert len(compilation.plan.steps) == 3
    with pytest.raises(nd.Error, match=NAMED):
        compilation.run(*WRONG)


def test_errors_of_whole_models_name_what_the_application_added(gatherer: nd.Device) -> None:
    with pytest.raises(nd.Error, match=NAMED):
        nd.CompilationBuilder(gathering(), [gatherer]).finish().run(*WRONG)


def test_errors_of_branches_name_the_graph() -> None:
    inner = nd.ModelBuilder()
    x, same, found, indices, axis = (
        inner.add_operand(F32, (2,)),
        inner.add_operand(F32, (2,)),
        inner.add_operand(F32, (2,)),
        inner.add_operand(I32, (2,)),
        inner.add_operand(SCALAR),
    )
    inner.set_operand_value(axis, 0)
    inner.add_operation(nd.OperationType.GATHER, [same, axis, indices], [found])
    inner.add_operation(nd.OperationType.CAST, [x], [indices])
    inner.add_operation(nd.OperationType.FLOOR, [x], [same])
    inner.identify_inputs_and_outputs([x], [found])
    branch = inner.finish()
    model = branching(branch, branch)
    gatherer = only("gatherer", nd.OperationType.GATHER)
    arrays = [np.array([True]), np.array([0, 7], np.float32)]
    for devices in ([cpu()], [cpu(), gatherer]):
        compilation = nd.CompilationBuilder(model, devices).finish()
        with pytest.raises(nd.Error, match=r"graph 1 operation .*0 GATHER.*operand 3 \(indices of GATHER\)"):
            compilation.run(*arrays)


def test_errors_after_a_fallback_name_what_the_application_added(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = FailingDevice(error=DeadObject("it is gone"))
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), failing))
    with pytest.raises(nd.Error, match=NAMED):
        nd.CompilationBuilder(gathering()).finish().run(*WRONG)


def test_no_number_is_that_of_a_sorted_position() -> None:
    """A refused operation is named by the application's number, whichever device refuses it."""
    for seed in range(10):
        subject = Shuffled(seed)
        missing = random.Random(seed).choice(subject.types)
        with pytest.raises(nd.Error) as raised:
            nd.CompilationBuilder(subject.model, [all_but("all", missing)]).finish()
        number, name = re.findall(r"operation (\d+) (\w+)", str(raised.value))[0]
        assert subject.types[int(number)].name == name == missing.name


def test_interpreted_loops_are_named() -> None:
    graph = Graph()
    counter, last, rounded = (graph.value(shape=(1,)) for _ in range(3))
    value, scaled = graph.value(), graph.value()
    condition, body = below(1e9, extra=1), counting(1.0, 1.0)
    graph.builder.add_operation(nd.OperationType.FLOOR, [last], [rounded])
    graph.builder.add_operation(
        nd.OperationType.WHILE, [graph.model(condition), graph.model(body), counter, value], [last, scaled]
    )
    model = graph.finish([counter, value], [rounded, scaled])
    compilation = nd.CompilationBuilder(model, [cpu(), only("adder", nd.OperationType.ADD)]).finish()
    execution = nd.Execution(compilation)
    for index, size in enumerate((1, 2)):
        execution.set_input(index, np.zeros(size, np.float32))
        execution.set_output(index, np.zeros(size, np.float32))
    execution.set_loop_timeout(0.05)
    with pytest.raises(nd.Error, match="operation 1 WHILE ran longer"):
        execution.compute()
