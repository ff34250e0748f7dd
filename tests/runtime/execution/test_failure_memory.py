"""Memory of failed executions, which is given back at once, not by a collection of garbage."""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition

import neurald as nd
from neurald.hal.device import Device, PreparedModel
from neurald.hal.errors import Error, OpFailed, OutputInsufficientSize, UnavailableDevice, copied
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.runtime.execution.program.overlapping_steps import OverlappingSteps
from neurald.runtime.execution.recovery.repeated_preparation import RepeatedPreparation

ONES = np.ones(4, np.float32)


class FailingDevice(AddingDevice):
    name = "failing"

    def __init__(self) -> None:
        super().__init__()
        self.on_execute = self._fail

    def _fail(self, *_: object) -> None:
        raise OpFailed("it failed")


@pytest.fixture(params=["here", "daemon"])
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Device]:
    if request.param == "here":
        yield FailingDevice()
        return
    address = f"unix://{tmp_path}/d.sock"
    server = DeviceServer(FailingDevice(), Address.parse(address))
    server.start()
    yield connect(address)
    server.stop()


def bound(compilation: nd.Compilation) -> nd.Execution:
    execution = nd.Execution(compilation)
    execution.set_input(0, ONES)
    execution.set_output(0, np.zeros(4, np.float32))
    return execution


def frames_kept(
    call: Callable[[], object], kind: type[Error] = OpFailed, match: str = "it failed"
) -> list[str]:
    """Returns the functions whose frames only a collection of garbage frees after a failed call."""

    def fails() -> None:
        with pytest.raises(kind, match=match):
            call()

    fails()
    gc.collect()
    gc.disable()
    try:
        fails()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return [each.f_code.co_name for each in gc.garbage if type(each) is FrameType]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize(
    "call",
    [
        lambda compilation: bound(compilation).compute(),
        lambda compilation: compilation.run(ONES),
        lambda compilation: bound(compilation).start_compute().wait(),
        lambda compilation: bound(compilation).start_compute_with_dependencies([]).wait(),
    ],
    ids=["compute", "run", "start", "fenced"],
)
def test_no_frames_are_left_in_cycles(device: Device, call: Callable[[nd.Compilation], Any]) -> None:
    compilation = nd.CompilationBuilder(addition(ONES), [device], strict=True).finish()
    assert frames_kept(lambda: call(compilation)) == []


def test_a_copy_of_an_error_is_like_it() -> None:
    cause = ValueError("why")
    error = OutputInsufficientSize("small", [(1, 2)])
    error.__cause__ = cause
    found = copied(error)
    assert found is not error
    assert (type(found), str(found), found.dimensions) == (OutputInsufficientSize, "small", ((1, 2),))
    assert found.__cause__ is cause


class OwnArguments(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def test_a_copy_of_an_error_with_other_arguments_is_like_it() -> None:
    error = OwnArguments(3, "wrong")
    found = copied(error)
    assert found is not error
    assert (type(found), str(found), found.status) == (OwnArguments, "wrong", 3)


def test_a_service_that_does_not_answer_leaves_no_frames(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("first.sock", "second.sock")]
    assert frames_kept(lambda: nd.connect_service(paths), UnavailableDevice, "first.sock") == []


def test_a_step_among_others_leaves_no_frames() -> None:
    def execute(_: int) -> None:
        raise OpFailed("it failed")

    def call() -> None:
        OverlappingSteps([frozenset(), frozenset()], execute, lambda: False, lambda: None).run()

    assert frames_kept(call) == []


def test_a_preparation_that_is_repeated_leaves_no_frames() -> None:
    def prepare() -> PreparedModel:
        raise OpFailed("it failed")

    assert frames_kept(lambda: RepeatedPreparation("here").wait(prepare, None)) == []
