"""Cancellations of executions whose daemon is stopped, wherever they wait for it."""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.daemon.processes import daemon_process, freeze_process
from support.models.addition import addition, request

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import Cancelled
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.client.prepared_model import RemotePreparedModel
from neurald.hal.sync.cancellation import Cancellation

_COUNT = 3
_BYTES = 4 * _COUNT
#: Much longer than a cancellation takes, and much less than a silent daemon is waited for.
_MAX_S = 20.0

_Run = Callable[[RemotePreparedModel, ExecuteOptions], object]


@pytest.fixture(scope="module")
def daemon() -> Iterator[tuple["subprocess.Popen[str]", str]]:
    with daemon_process() as started:
        yield started


@pytest.fixture
def prepared(daemon: tuple["subprocess.Popen[str]", str]) -> Iterator[RemotePreparedModel]:
    device = connect(daemon[1])
    yield device.prepare_model(addition(np.ones(_COUNT)), PrepareOptions())
    device.close()


def _run_arrays(prepared: RemotePreparedModel, options: ExecuteOptions) -> None:
    result = np.full(_COUNT, np.nan, np.float32)
    prepared.execute(request(np.arange(_COUNT, dtype=np.float32), result), options)
    assert result.tolist() == [1, 2, 3]


def _shared_request() -> Request:
    """Returns a request in memory that the daemon has not seen."""
    memory = SharedMemory.create(2 * 64)
    memory.view(0, _BYTES)[:] = np.arange(_COUNT, dtype=np.float32).tobytes()
    return Request(
        inputs=(Argument(pool=0, length=_BYTES, dimensions=(_COUNT,)),),
        outputs=(Argument(pool=0, offset=64, length=_BYTES),),
        pools=(memory,),
    )


def _run_shared(prepared: RemotePreparedModel, options: ExecuteOptions) -> None:
    prepared.execute(_shared_request(), options)


def _call(prepared: RemotePreparedModel, options: ExecuteOptions) -> None:
    prepared.call(_shared_request(), options)


def _launch(prepared: RemotePreparedModel, options: ExecuteOptions) -> None:
    prepared.launch(_shared_request(), (), options)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(None, _run_arrays, id="opens a ring"),
        pytest.param(_run_arrays, _run_shared, id="sends a ring memory"),
        pytest.param(None, _call, id="sends a call memory"),
        pytest.param(None, _launch, id="launches"),
    ],
)
def test_a_cancelled_execution_ends(
    daemon: tuple["subprocess.Popen[str]", str],
    prepared: RemotePreparedModel,
    first: _Run | None,
    then: _Run,
) -> None:
    process, _ = daemon
    if first is not None:
        first(prepared, ExecuteOptions())
    cancellation = Cancellation()
    found: list[BaseException] = []

    def run() -> None:
        try:
            then(prepared, ExecuteOptions(cancellation=cancellation))
        except BaseException as error:
            found.append(error)

    freeze_process(process)
    try:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), found
        cancellation.cancel()
        thread.join(_MAX_S)
        assert not thread.is_alive()
        assert isinstance(found[0], Cancelled), found
    finally:
        process.send_signal(signal.SIGCONT)
    # Answers that nobody waited for are not taken for those of later calls.
    for each in (_run_arrays, _run_shared, _call):
        each(prepared, ExecuteOptions())
    assert cancellation._callbacks == []
