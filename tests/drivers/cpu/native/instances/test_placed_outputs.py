"""Outputs of steps with changing lengths that are written where the caller wants them."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cpu.growing_lists import over, pushed
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.native.instances import growing_instance, short_steps
from neurald.drivers.cpu.native.instances.placed_outputs import PlacedOutputs, placed_outputs
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.execution.reusable import reusable_execution
from neurald.hal.model.request import Argument, Request
from neurald.hal.sync.cancellation import Cancellation

WIDTH = 50


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> nd.Model:
    """Tiles a row as often as the second input says, in executions that are not short."""
    monkeypatch.setattr(short_steps, "_MAX_SHORT_NS", -1)
    file = TfliteModel()
    graph = file.subgraph()
    row, times = graph.tensor((1, WIDTH)), graph.tensor((2,), "INT32")
    tiled = graph.tensor((1, WIDTH), shape_signature=(-1, -1))
    graph.operator("TILE", (row, times), (tiled,))
    graph.inputs, graph.outputs = (row, times), (tiled,)
    return nd.load_tflite(file.build())


def placed(model: nd.Model, monkeypatch: pytest.MonkeyPatch) -> list[PlacedOutputs | None]:
    """Returns what is found for the steps of a model."""
    found: list[PlacedOutputs | None] = []

    def find(opened: Any) -> PlacedOutputs | None:
        found.append(placed_outputs(opened))
        return found[-1]

    monkeypatch.setattr(growing_instance, "placed_outputs", find)
    nd.CompilationBuilder(model, [CpuDevice()]).finish()
    return found


def test_outputs_that_are_written_after_all_lengths(tiles: nd.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = placed(tiles, monkeypatch)
    assert found is not None
    assert [len(each) for each in found.arguments] == [1]


def test_steps_with_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    assert placed(over(pushed), monkeypatch) == [None]


def test_outputs_are_not_copied(tiles: nd.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    copy = ctypes.memmove

    def memmove(target: Any, source: Any, size: int) -> None:
        copied.append(size)
        copy(target, source, size)

    compilation = nd.CompilationBuilder(tiles, [CpuDevice()]).finish()
    monkeypatch.setattr(ctypes, "memmove", memmove)
    row = np.arange(WIDTH, dtype=np.float32)[None]
    for times in ((3, 2), (30, 40), (1, 1), (0, 2), (3, 2)):
        (found,) = compilation.run(row, np.array(times, np.int32))
        np.testing.assert_array_equal(found, np.tile(row, times))
    # Inputs that are not aligned are copied.
    assert set(copied) <= {row.nbytes, 8}


@pytest.mark.parametrize("offset", [0, 64, 1024, 1088, 4096])
def test_outputs_that_overlap_inputs(tiles: nd.Model, offset: int) -> None:
    prepared = CpuDevice().prepare_model(tiles, PrepareOptions())
    memory, row = nd.Memory.allocate(8192), np.arange(WIDTH, dtype=np.float32)[None]
    content, size = np.frombuffer(memory.view(0, 8192), np.uint8), 4 * row.nbytes
    content[6144:6152] = np.array((2, 2), np.int32).view(np.uint8)
    request = Request(
        inputs=(
            Argument(pool=0, offset=1024, length=row.nbytes),
            Argument(pool=0, offset=6144, length=8),
        ),
        outputs=(Argument(pool=0, offset=offset, length=size),),
        pools=(memory,),
    )
    assert prepared.execute(request, ExecuteOptions()).is_sufficient
    repeat = reusable_execution(prepared, request)
    assert repeat is not None
    runs: tuple[Callable[[], object], ...] = (
        lambda: prepared.execute(request, ExecuteOptions()),
        lambda: repeat(Cancellation()),
    )
    for run in runs:
        content[1024 : 1024 + row.nbytes] = row.view(np.uint8)[0]
        run()
        found = content[offset : offset + size].view(np.float32).reshape(2, -1)
        np.testing.assert_array_equal(found, np.tile(row, (2, 2)))


def test_outputs_that_do_not_fit(tiles: nd.Model) -> None:
    compilation = nd.CompilationBuilder(tiles, [CpuDevice()]).finish()
    row, times = np.arange(WIDTH, dtype=np.float32)[None], np.array((2, 2), np.int32)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, row)
    execution.set_input(1, times)
    output = np.full(3 * WIDTH, -1, np.float32)
    execution.set_output(0, output)
    with pytest.raises(nd.OutputInsufficientSize):
        execution.compute()
    assert (output == -1).all()
    times[:] = 3, 1
    execution.compute()
    np.testing.assert_array_equal(output, np.tile(row, (3, 1)).ravel())
