"""Models whose numbers of results follow from data: buffers, repeated executions and artifacts."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.cpu.artifact import read_artifact, write_artifact
from neurald.drivers.cpu.data_dependent.bounded_model import BoundedModel
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.target.executable import BoundedPort
from neurald.hal.device import Artifact, ExecuteOptions, ExecutionResult, PrepareOptions
from neurald.hal.errors import BadData, Cancelled, MissedDeadlinePersistent
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer

COUNT = 30
OPTIONS = PrepareOptions(cache_key=b"key")


@pytest.fixture(scope="module")
def model() -> nd.Model:
    """UNIQUE of a row, whose outputs are the distinct numbers and the number of each element."""
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs = [graph.tensor(shape=(COUNT,), type_="INT32")]
    graph.outputs = [
        graph.tensor(shape=(COUNT,), type_="INT32", shape_signature=(-1,)),
        graph.tensor(shape=(COUNT,), type_="INT32"),
    ]
    graph.operator("UNIQUE", graph.inputs, graph.outputs, "UniqueOptions", IdxOutType=2)
    return nd.load_tflite(file.build())


@pytest.fixture(scope="module")
def prepared(model: nd.Model) -> BoundedModel:
    made = CpuDevice().prepare_model(model, OPTIONS)
    assert isinstance(made, BoundedModel)
    return made


@pytest.fixture(scope="module")
def compilation(model: nd.Model) -> nd.Compilation:
    return nd.CompilationBuilder(model, [CpuDevice()]).finish()


def _distinct(source: np.ndarray[Any, Any]) -> list[int]:
    return list(dict.fromkeys(source.tolist()))


def test_outputs_have_the_rows_that_exist(compilation: nd.Compilation) -> None:
    for limit in (1, 2, 100, 5):
        source = np.random.default_rng(limit).integers(0, limit, COUNT).astype(np.int32)
        values, numbers = compilation.run(source)
        assert values.tolist() == _distinct(source)
        np.testing.assert_array_equal(values[numbers], source)


def test_few_rows_do_not_keep_the_memory_of_all(compilation: nd.Compilation) -> None:
    source = np.arange(COUNT, dtype=np.int32)
    for count in (COUNT, COUNT - 1, 3, COUNT, 1):
        given = np.minimum(source, count - 1)
        for _ in range(5):
            values, numbers = compilation.run(given)
            np.testing.assert_array_equal(values, source[:count])
            np.testing.assert_array_equal(numbers, given)
            assert values.flags.c_contiguous
            whole = values if values.base is None else values.base
            assert whole.nbytes <= 2 * values.nbytes


@pytest.mark.parametrize("room", [COUNT, 7, 4])
def test_repeated_executions_may_have_other_rows(compilation: nd.Compilation, room: int) -> None:
    source, values, numbers = (np.zeros(length, np.int32) for length in (COUNT, room, COUNT))
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, source)
    execution.set_output(0, values)
    execution.set_output(1, numbers)
    for limit in (3, 3, 3, 4, 4, 1, 1):
        source[:] = np.arange(COUNT)[::-1] % limit
        values[:] = -1
        execution.compute()
        assert execution.output_dimensions(0) == (limit,)
        assert values[:limit].tolist() == _distinct(source)


class _Served:
    """A reusable execution of a daemon, whose outputs have room for all rows."""

    def __init__(self, remote: nd.Device, model: nd.Model) -> None:
        self.compilation = nd.CompilationBuilder(model, [remote]).finish()
        self._source, self._values, numbers = (np.zeros(COUNT, np.int32) for _ in range(3))
        self._offset = 0
        self.execution = nd.Execution(self.compilation, reusable=True)
        self.execution.set_input(0, self._source)
        self.execution.set_output(0, self._values)
        self.execution.set_output(1, numbers)

    def compute(self, limit: int, burst: nd.Burst | None = None) -> None:
        """Finds this number of rows, which differ from those of earlier executions."""
        self._offset += 1
        self._source[:] = np.arange(COUNT)[::-1] % limit + self._offset
        self.execution.compute(burst=burst)
        assert self.execution.output_dimensions(0) == (limit,)
        assert self._values[:limit].tolist() == _distinct(self._source)


@pytest.fixture
def served(model: nd.Model, tmp_path: Path) -> Iterator[_Served]:
    server = DeviceServer(CpuDevice(), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    remote = nd.connect(str(server.address))
    yield _Served(remote, model)
    remote.close()
    server.stop()


def test_daemons_repeat_executions_with_room_for_all_rows(served: _Served) -> None:
    """Native code, which daemons have repeat other models, does not know the rows that it finds."""
    with served.compilation.create_burst() as burst:
        for number, limit in enumerate((30, 30, 30, 3, 3, 3, 1, 30)):
            served.compute(limit, burst if number % 2 else None)


def test_rows_of_an_execution_that_was_cancelled_at_its_end_are_forgotten(
    served: _Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = BoundedModel.execute

    def cancelled(own: BoundedModel, request: Request, options: ExecuteOptions) -> ExecutionResult:
        result, cancellation = execute(own, request, options), options.cancellation
        served.execution.cancel()
        wait_until(lambda: cancellation is not None and cancellation.is_cancelled)
        return result

    served.compute(COUNT)
    monkeypatch.setattr(BoundedModel, "execute", cancelled)
    with pytest.raises(Cancelled):
        served.compute(3)
    monkeypatch.undo()
    served.compute(COUNT)
    served.compute(3)


def test_a_buffer_may_be_too_small(compilation: nd.Compilation) -> None:
    source, values, numbers = (np.arange(length, dtype=np.int32) for length in (COUNT, 5, COUNT))
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, source)
    execution.set_output(0, values)
    execution.set_output(1, numbers)
    with pytest.raises(nd.OutputInsufficientSize, match=r"output 0 has shape \[30\]"):
        execution.compute()
    source[:] = 1
    execution.compute()
    assert execution.output_dimensions(0) == (1,)
    assert values[0] == 1


def test_waiting_for_others_is_no_time_in_the_driver(
    prepared: BoundedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = NativeModel.run

    def run_late(own: NativeModel, *arguments: Any, **others: Any) -> None:
        time.sleep(0.02)
        run(own, *arguments, **others)

    monkeypatch.setattr(NativeModel, "run", run_late)
    arrays = [np.arange(COUNT, dtype=np.int32) for _ in range(3)]
    sized = [Argument(pool=number, length=4 * COUNT) for number in range(3)]
    request = Request(
        inputs=(sized[0],), outputs=tuple(sized[1:]), pools=tuple(HostMemory(array) for array in arrays)
    )
    started_ns = time.monotonic_ns()
    timing = prepared.execute(request, ExecuteOptions(measure=True)).timing
    elapsed_ns = time.monotonic_ns() - started_ns
    assert timing.on_device_ns is not None
    assert timing.in_driver_ns is not None
    assert timing.queued_ns is not None
    assert timing.queued_ns >= 20e6
    assert timing.on_device_ns <= timing.in_driver_ns <= elapsed_ns - timing.queued_ns


def test_declared_operands(prepared: BoundedModel) -> None:
    assert prepared.operand(0, is_output=True).dimensions == (0,)
    assert prepared.operand(1, is_output=True).dimensions == (COUNT,)
    assert prepared.operand(0, is_output=False).dimensions == (COUNT,)
    for index in (-1, 2):
        with pytest.raises(BadData, match="there is no output"):
            prepared.operand(index, is_output=True)


def test_it_is_restored_from_the_cache(model: nd.Model, tmp_path: Path) -> None:
    source = np.arange(COUNT, dtype=np.int32) % 7
    for _ in range(2):
        builder = nd.CompilationBuilder(model, [CpuDevice()])
        builder.set_caching(tmp_path, bytes(32))
        compilation = builder.finish()
        assert compilation.run(source)[0].tolist() == _distinct(source)


def test_damaged_artifacts_are_refused(prepared: BoundedModel) -> None:
    native = prepared.native
    (bound,) = native.executable.bounded
    for wrong in (
        BoundedPort(output=2, dimension=0, count=2),
        BoundedPort(output=0, dimension=1, count=2),
        BoundedPort(output=0, dimension=0, count=1),
        BoundedPort(output=0, dimension=0, count=3),
        BoundedPort(output=-1, dimension=0, count=2),
    ):
        executable = msgspec.structs.replace(native.executable, bounded=(wrong,))
        damaged = NativeModel(executable, native.codes, native.constants, native.team)
        with pytest.raises(BadData):
            read_artifact(write_artifact(damaged))
    artifact = prepared.artifact()
    assert artifact is not None
    assert read_artifact(artifact).executable.bounded == (bound,)
    with pytest.raises(BadData):
        read_artifact(Artifact(model=(HostMemory(b"?"),), data=artifact.data))


def test_inputs_are_not_overwritten_by_short_executions(prepared: BoundedModel) -> None:
    """An execution with other rows is repeated, which must not find changed inputs."""
    memory = HostMemory(np.zeros(4 * COUNT, np.uint8))
    other = HostMemory(np.zeros(4 * COUNT, np.uint8))
    whole = Argument(pool=0, length=4 * COUNT)
    apart, in_place = (
        Request(
            inputs=(whole,),
            outputs=(Argument(pool=1, length=4 * COUNT), last),
            pools=(memory, other, HostMemory(np.zeros(4 * COUNT, np.uint8))),
        )
        for last in (Argument(pool=2, length=4 * COUNT), whole)
    )
    prepared.execute(apart, ExecuteOptions())
    assert prepared.create_short_execution(apart) is not None
    assert prepared.create_short_execution(in_place) is None


def test_a_deadline_that_has_passed(prepared: BoundedModel) -> None:
    request: Any = None
    with pytest.raises(MissedDeadlinePersistent):
        prepared.execute(request, ExecuteOptions(deadline_s=0.0))
