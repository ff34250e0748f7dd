"""All ways to compute give the same results.

They are tested on one device and on several, in this process and in daemons, and with daemons that
die.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import daemon_process, running_daemon
from support.devices.misbehaving import SampleDevice
from support.devices.modes import MODES, compute
from support.models.plans import Array, compiled, cpu
from support.tiers import one_in

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice
from neurald.drivers.sample.device import create_float_fast, create_minimal
from neurald.hal.errors import BadState
from neurald.hal.memory.pool import Memory

T = nd.OperationType
FLOAT = nd.OperandType.TENSOR_FLOAT32
FUSED = (T.ADD, T.ADD, T.ADD, T.SUB, T.MUL)
BINARY = (T.MAXIMUM, T.MINIMUM)
UNARY = (T.TANH, T.LOGISTIC, T.RELU6, T.ABS, T.FLOOR)
SEEDS = 30
HANG_LIMIT_S = 60.0


class RandomModel:
    """A graph of element-wise operations on matrices, some of which have open shapes."""

    def __init__(self, rng: random.Random) -> None:
        self.shape = (rng.randint(1, 6), rng.randint(1, 6))
        self._rng = rng
        self._builder = nd.ModelBuilder()
        inputs = [self._builder.add_operand(FLOAT, self._declared()) for _ in range(rng.randint(1, 3))]
        values = list(inputs)
        for _ in range(rng.randint(3, 40)):
            values.append(self._operation(values))
        computed = values[len(inputs) :]
        outputs = sorted({computed[-1], *rng.sample(computed, k=min(3, len(computed)))})
        self._builder.identify_inputs_and_outputs(inputs, outputs)
        self.model = self._builder.finish()

    def _declared(self) -> tuple[int, ...]:
        rows, columns = self.shape
        if self._rng.random() < 0.8:
            return self.shape
        return self._rng.choice([(0, columns), (rows, 0), ()])

    def _operation(self, values: list[int]) -> int:
        kind = self._rng.choice((*FUSED, *BINARY, *UNARY))
        inputs = [self._rng.choice(values)]
        if kind not in UNARY:
            inputs.append(self._rng.choice(values[-6:]))
        if kind in FUSED:
            inputs.append(self._builder.add_operand(nd.OperandType.INT32))
            self._builder.set_operand_value(inputs[-1], self._rng.randrange(4))
        output = self._builder.add_operand(FLOAT, self._declared())
        self._builder.add_operation(kind, inputs, [output])
        return output

    def arrays(self) -> list[Array]:
        generator = np.random.default_rng(self._rng.randrange(2**32))
        return [generator.uniform(-3, 3, self.shape).astype(np.float32) for _ in self.model.inputs]


class Buffers:
    """Inputs and outputs of executions, all of one shape, as arrays or in one shared memory."""

    def __init__(self, model: nd.Model, shape: tuple[int, ...], *, shared: bool) -> None:
        self._shape = shape
        self._slot = -(-4 * shape[0] * shape[1] // 64) * 64
        count = len(model.inputs) + len(model.outputs)
        self._memory = Memory.allocate(count * self._slot) if shared else None
        self._arrays = [self._array(n) for n in range(count)]
        self.inputs, self.outputs = self._arrays[: len(model.inputs)], self._arrays[len(model.inputs) :]

    def _array(self, number: int) -> Array:
        if self._memory is None:
            return np.zeros(self._shape, np.float32)
        size = 4 * self._shape[0] * self._shape[1]
        return np.frombuffer(self._memory.view(number * self._slot, size), np.float32).reshape(self._shape)

    def bind(self, execution: nd.Execution) -> None:
        for position, array in enumerate(self.inputs):
            if self._memory is None:
                execution.set_input(position, array)
            else:
                offset = position * self._slot
                execution.set_input_from_memory(position, self._memory, offset, array.nbytes, self._shape)
        for position, array in enumerate(self.outputs):
            if self._memory is None:
                execution.set_output(position, array, self._shape)
            else:
                offset = (len(self.inputs) + position) * self._slot
                execution.set_output_from_memory(position, self._memory, offset, array.nbytes, self._shape)

    def fill(self, arrays: list[Array]) -> None:
        for target, source in zip(self.inputs, arrays, strict=True):
            target[:] = source
        for output in self.outputs:
            output[:] = np.nan

    def result(self) -> list[bytes]:
        return [output.tobytes() for output in self.outputs]


@pytest.fixture(scope="module")
def daemons() -> Iterator[tuple[nd.Device, nd.Device]]:
    """Two daemons: one with a fast device for additions, and one with a device for all float
    operations.
    """
    with (
        running_daemon("neurald.drivers.sample.device:create_minimal") as first,
        running_daemon("neurald.drivers.sample.device:create_float_fast") as second,
    ):
        yield nd.connect(first), nd.connect(second)


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["arrays", "shared memory"])
@pytest.mark.parametrize("where", ["in process", "two daemons"])
@pytest.mark.parametrize("seed", one_in(3, range(SEEDS)))
@pytest.mark.sampled(3)
def test_all_modes_give_the_same(
    seed: int, where: str, shared: bool, daemons: tuple[nd.Device, nd.Device]
) -> None:
    rng = random.Random(seed)
    graph = RandomModel(rng)
    devices = daemons if where == "two daemons" else (create_minimal(), create_float_fast())
    whole, split = compiled(graph.model, ReferenceDevice()), compiled(graph.model, *devices)
    rounds = [graph.arrays() for _ in range(2)]
    expected = [[output.tobytes() for output in whole.run(*arrays)] for arrays in rounds]
    for mode in MODES:
        buffers = Buffers(graph.model, graph.shape, shared=shared)
        reusable = nd.Execution(split, reusable=True)
        buffers.bind(reusable)
        for arrays, result in zip(rounds, expected, strict=True):
            once = nd.Execution(split)
            buffers.bind(once)
            for execution in (once, reusable):
                buffers.fill(arrays)
                compute(execution, mode)
                assert buffers.result() == result, (mode, execution is once)
                assert execution.output_shapes() == [graph.shape] * len(graph.model.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_executions_of_all_modes_at_the_same_time(seed: int, daemons: tuple[nd.Device, nd.Device]) -> None:
    rng = random.Random(1000 + seed)
    graph = RandomModel(rng)
    whole, split = compiled(graph.model, ReferenceDevice()), compiled(graph.model, *daemons)
    wrong: list[str] = []

    def work(mode: str, arrays: list[Array], expected: list[bytes]) -> None:
        buffers = Buffers(graph.model, graph.shape, shared=True)
        execution = nd.Execution(split, reusable=True)
        buffers.bind(execution)
        for _ in range(10):
            buffers.fill(arrays)
            compute(execution, mode)
            if buffers.result() != expected:
                wrong.append(mode)

    threads = []
    for mode in MODES * 2:
        arrays = graph.arrays()
        expected = [output.tobytes() for output in whole.run(*arrays)]
        threads.append(threading.Thread(target=work, args=(mode, arrays, expected)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_LIMIT_S)
        assert not thread.is_alive()
    assert not wrong


# Daemons that die


def additions(count: int) -> nd.Model:
    """Builds a chain that alternates between ADD and TANH, so that two devices run in turn."""
    builder = nd.ModelBuilder()
    source = value = builder.add_operand(FLOAT, (4, 4))
    one = builder.add_operand(FLOAT, (4, 4))
    builder.set_operand_value(one, np.ones((4, 4), np.float32))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    for _ in range(count):
        total, value = value, builder.add_operand(FLOAT, (4, 4))
        builder.add_operation(T.ADD, [total, one, none], [value])
        total, value = value, builder.add_operand(FLOAT, (4, 4))
        builder.add_operation(T.TANH, [total], [value])
    builder.identify_inputs_and_outputs([source], [value])
    return builder.finish()


DRIVERS = {
    "minimal": "neurald.drivers.sample.device:create_minimal",
    "fast": "neurald.drivers.sample.device:create_float_fast",
}


class Reusable:
    """An execution with its buffers in one of the modes; the mode "burst" uses one burst for all
    runs.
    """

    def __init__(self, compilation: nd.Compilation, mode: str, cleanup: ExitStack) -> None:
        self._mode = mode
        self._buffers = Buffers(compilation.model, (4, 4), shared=mode in ("burst", "fenced"))
        self._execution = nd.Execution(compilation, reusable=True)
        self._buffers.bind(self._execution)
        self._burst = cleanup.enter_context(compilation.create_burst()) if mode == "burst" else None

    def computed(self, number: int) -> tuple[bytes, ...]:
        self._buffers.fill([np.full((4, 4), number / 8, np.float32)])
        if self._burst is not None:
            self._execution.compute(burst=self._burst)
        else:
            compute(self._execution, self._mode)
        return tuple(self._buffers.result())


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "mode"),
    # Both daemons in turn, since each case starts three processes.
    [
        pytest.param(killed, mode, marks=[pytest.mark.full] if (number + turn) % 2 else [])
        for turn, killed in enumerate(DRIVERS)
        for number, mode in enumerate(MODES)
    ],
)
def test_a_daemon_that_is_killed_and_comes_back(
    killed: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run is right: on the CPU while the daemon is down, and on the restarted daemon
    afterwards.
    """
    model = additions(2)
    reference = compiled(model, cpu())
    places = {name: f"unix://{tmp_path}/{name}.sock" for name in DRIVERS}
    with ExitStack() as cleanup:
        other = next(name for name in DRIVERS if name != killed)
        cleanup.enter_context(running_daemon(DRIVERS[other], places[other]))
        process, _ = cleanup.enter_context(daemon_process(DRIVERS[killed], places[killed]))
        devices = (cpu(), *(nd.connect(place) for place in places.values()))
        monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: devices)
        builder = nd.CompilationBuilder(model)
        builder.set_caching(tmp_path / "cache", bytes(32))
        compilation = builder.finish()
        assert [step.device for step in compilation.plan.steps] == list(devices[1:]) * 2
        execution = Reusable(compilation, mode, cleanup)

        def run(number: int) -> None:
            (expected,) = reference.run(np.full((4, 4), number / 8, np.float32))
            (result,) = execution.computed(number)
            np.testing.assert_allclose(np.frombuffer(result, np.float32).reshape(4, 4), expected, rtol=1e-6)

        for number in range(10):
            run(number)
        process.kill()
        process.wait()
        for number in range(10, 20):
            run(number)
        dead = devices[1 + list(DRIVERS).index(killed)]
        assert {state.device for state in compilation.recovery.fallbacks} == {dead.name}
        cleanup.enter_context(daemon_process(DRIVERS[killed], places[killed]))
        end = time.monotonic() + HANG_LIMIT_S
        number = 20
        while compilation.recovery.fallbacks:
            assert time.monotonic() < end, compilation.recovery.fallbacks
            run(number)
            number += 1
        for more in range(10):
            run(number + more)
        assert compilation.recovery.fallbacks == ()
        assert all(move.until_s is not None for move in compilation.explain().moves)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sampled(2)
def test_an_explicit_daemon_that_is_killed_and_comes_back(mode: str, tmp_path: Path) -> None:
    """Every run is right or raises DEAD_OBJECT, and it is right again once the daemon is back."""
    model = additions(2)
    place = f"unix://{tmp_path}/fast.sock"
    with ExitStack() as cleanup:
        process, _ = cleanup.enter_context(daemon_process(DRIVERS["fast"], place))
        compilation = compiled(
            model, SampleDevice("adder", supports=lambda kind: kind is T.ADD), nd.connect(place)
        )
        execution = Reusable(compilation, mode, cleanup)
        reference = compiled(model, ReferenceDevice())
        expected = [
            tuple(o.tobytes() for o in reference.run(np.full((4, 4), n / 8, np.float32))) for n in range(10)
        ]
        assert [execution.computed(number) for number in range(10)] == expected
        process.kill()
        process.wait()
        for number in range(5):
            with pytest.raises(nd.Error) as caught:
                execution.computed(number)
            assert caught.value.code is nd.ResultCode.DEAD_OBJECT
        cleanup.enter_context(daemon_process(DRIVERS["fast"], place))
        assert [execution.computed(number) for number in range(10)] == expected


@pytest.mark.slow
def test_a_burst_that_is_closed_while_it_is_used(daemons: tuple[nd.Device, nd.Device]) -> None:
    """Running executions are right, later ones are refused, and no device counts as failed."""
    model = additions(2)
    compilation = compiled(model, *daemons)
    (expected,) = compiled(model, ReferenceDevice()).run(np.full((4, 4), 1, np.float32))
    for delay_s in np.linspace(0, 5e-3, 40):
        buffers = Buffers(model, (4, 4), shared=True)
        execution = nd.Execution(compilation, reusable=True)
        buffers.bind(execution)
        burst = compilation.create_burst()
        closer = threading.Timer(float(delay_s), burst.close)
        closer.start()
        while True:
            buffers.fill([np.full((4, 4), 1, np.float32)])
            try:
                execution.compute(burst=burst)
            except BadState:
                break
            assert buffers.result() == [expected.tobytes()]
        closer.join()
