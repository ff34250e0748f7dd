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
from neurald.hal.device import Device
from neurald.hal.errors import OpFailed, OutputInsufficientSize, copied
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer

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


def frames_kept(call: Callable[[], object]) -> list[str]:
    """Returns the functions whose frames only a collection of garbage frees after a failed call."""

    def fails() -> None:
        with pytest.raises(OpFailed, match="it failed"):
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
