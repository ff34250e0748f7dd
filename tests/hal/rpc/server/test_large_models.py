"""Large models are read and checked one at a time, so that they do not use memory all at once."""

import contextlib
import threading
import time
from pathlib import Path

import pytest
from support.models.addition import AddingDevice
from support.models.hostile import chain

from neurald.hal.device import PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.hal.model.types import FeatureLevel
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server import model_handler
from neurald.hal.rpc.server.server import DeviceServer

_CLIENTS = 4


@pytest.mark.parametrize(("operations", "at_once"), [(3000, 1), (10, _CLIENTS)])
def test_large_models_are_read_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operations: int, at_once: int
) -> None:
    """Each takes megabytes while it is checked; small ones do not wait for each other."""
    running, most, lock = 0, 0, threading.Lock()

    def validate(model: Model) -> FeatureLevel:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.3)
        with lock:
            running -= 1
        return FeatureLevel.LEVEL_1

    monkeypatch.setattr(model_handler, "validate_model", validate)
    server = DeviceServer(AddingDevice(), Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    remotes = [connect(str(server.address)) for _ in range(_CLIENTS)]
    model = chain(operations)

    def prepare(number: int) -> None:
        with contextlib.suppress(Error):  # the device only adds
            remotes[number].prepare_model(model, PrepareOptions())

    threads = [threading.Thread(target=prepare, args=(number,)) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for remote in remotes:
        remote.close()
    server.stop()
    assert most == at_once
