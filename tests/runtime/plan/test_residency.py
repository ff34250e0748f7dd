"""Values between steps of one device stay in its memory.

They are copied to the host only if a step on another device reads them.
"""

import numpy as np
import pytest
from support.devices.buffers import KeepingDevice
from support.models.control_flow import ADD, BOOL, MUL, Graph, arithmetic
from support.models.plans import program
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import DeadObject
from neurald.runtime.execution.program.compound_executor import CompoundExecutor

Op = nd.OperationType
FLOAT = nd.OperandType.TENSOR_FLOAT32
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def branches(*, cpu_reads: bool) -> nd.Model:
    """Builds a = x + x; b = tanh(a or x); c = a + b.

    The device runs a and c, the CPU device runs b.
    """
    builder = nd.ModelBuilder()
    x, a, b, c = (builder.add_operand(FLOAT, (2, 3)) for _ in range(4))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    builder.add_operation(Op.ADD, [x, x, none], [a])
    builder.add_operation(Op.TANH, [a if cpu_reads else x], [b])
    builder.add_operation(Op.MUL, [a, b, none], [c])
    builder.identify_inputs_and_outputs([x], [c])
    return builder.finish()


def compiled(device: nd.Device, model: nd.Model) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, [nd.devices()[0], device])
    rules = (
        nd.pin(device.name, operation_type=Op.ADD),
        nd.pin("cpu", operation_type=Op.TANH),
        nd.pin(device.name, operation_type=Op.MUL),
    )
    builder.set_partitioning(nd.Partitioning(overrides=rules))
    return builder.finish()


def expected(*, cpu_reads: bool) -> np.ndarray:
    a = X + X
    return a * np.tanh(a if cpu_reads else X)


def host_copies(compilation: nd.Compilation) -> int:
    assert isinstance(compilation.executor, CompoundExecutor)
    return compilation.executor.host_copies


@sweep("cpu_reads", [False, True])
def test_only_what_the_cpu_reads_comes_to_the_host(*, cpu_reads: bool) -> None:
    device = KeepingDevice("keeping")
    compilation = compiled(device, branches(cpu_reads=cpu_reads))
    for run in range(1, 4):
        (result,) = compilation.run(X)
        np.testing.assert_allclose(result, expected(cpu_reads=cpu_reads), rtol=1e-6)
        assert host_copies(compilation) == (run if cpu_reads else 0)
    # One buffer for a, which every execution uses again, and none for b, which the CPU device
    # writes.
    assert len(device.buffers) == 1


def test_a_condition_stays_on_the_host() -> None:
    """The device computes the condition of an IF, and reads it again after the IF.

    c = s < 0; t = s + 1 if c else s * 2; SELECT(c, t, s).
    """
    graph = Graph()
    source, condition = graph.value(shape=(1,)), graph.value(BOOL, (1,))
    chosen, output = graph.value(shape=(1,)), graph.value(shape=(1,))
    graph.builder.add_operation(Op.LESS, [source, graph.constant([0])], [condition])
    branches = [graph.model(arithmetic(kind, number, (1,))) for kind, number in ((ADD, 1), (MUL, 2))]
    graph.builder.add_operation(Op.IF, [condition, *branches, source], [chosen])
    graph.builder.add_operation(Op.SELECT, [condition, chosen, source], [output])
    device = KeepingDevice("keeping")
    builder = nd.CompilationBuilder(graph.finish([source], [output]), [nd.devices()[0], device])
    # The device computes a branch, so that the IF is interpreted.
    rules = [nd.pin(device.name, operation_type=kind) for kind in (Op.LESS, Op.SELECT, MUL)]
    rules += [nd.pin("cpu", operation_type=kind) for kind in (Op.IF, ADD)]
    builder.set_partitioning(nd.Partitioning(overrides=tuple(rules)))
    compilation = builder.finish()
    assert program(compilation).count("If") == 1
    for number, expected in ((-3.0, -2.0), (5.0, 5.0)):
        (result,) = compilation.run(np.array([number], np.float32))
        assert result.tolist() == [expected]
    assert not device.buffers


def test_a_buffer_that_is_lost_is_replaced() -> None:
    device = KeepingDevice("keeping")
    compilation = compiled(device, branches(cpu_reads=False))
    compilation.run(X)
    device.buffers[0].lost = True
    (result,) = compilation.run(X)
    np.testing.assert_allclose(result, expected(cpu_reads=False), rtol=1e-6)
    assert len(device.buffers) == 2


def test_a_device_without_memory_to_spare_uses_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    device = KeepingDevice("keeping")
    compilation = compiled(device, branches(cpu_reads=True))

    def refuse(_: object) -> None:
        raise DeadObject("no memory")

    monkeypatch.setattr(device, "allocate", refuse)
    (result,) = compilation.run(X)
    np.testing.assert_allclose(result, expected(cpu_reads=True), rtol=1e-6)
    assert host_copies(compilation) == 0
