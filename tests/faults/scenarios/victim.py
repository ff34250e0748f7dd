"""Process to be killed while it acts: one client thread for each way.

    python -m faults.scenarios.victim ADDRESS WAY…

It never stops by itself.
"""

import sys
import threading
from collections.abc import Callable, Sequence

import numpy as np
from support.models.addition import addition

from neurald.hal.device import ExecuteOptions, PreparedModel, PrepareOptions
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.sync.fence import Fence

WAYS = ("execute", "burst", "fenced", "prepare")

_BYTES = 1 << 16
_MODEL = addition(np.ones((_BYTES // 4,), np.float32))
_FENCED = 4


def _request() -> Request:
    memory = SharedMemory.create(2 * _BYTES)
    return Request(
        inputs=(Argument(pool=0, length=_BYTES),),
        outputs=(Argument(pool=0, offset=_BYTES, length=_BYTES),),
        pools=(memory,),
    )


def _acting(way: str, device: RemoteDevice) -> Callable[[], object]:
    """Returns the action to repeat."""
    if way == "prepare":
        return lambda: device.prepare_model(_MODEL, PrepareOptions())
    prepared: PreparedModel = device.prepare_model(_MODEL, PrepareOptions())
    request, options = _request(), ExecuteOptions()
    if way == "execute":
        return lambda: prepared.execute(request, options)
    if way == "burst":
        burst = prepared.create_burst()
        return lambda: burst.execute(request, options)
    never = Fence()
    # They wait in the daemon for a fence that is not signalled when its owner dies.
    waiting = [prepared.execute_fenced(_request(), (never,), options) for _ in range(_FENCED)]
    return lambda: (waiting, prepared.execute_fenced(request, (), options).result())


def _act(way: str, address: str, has_begun: threading.Barrier) -> None:
    act = _acting(way, connect(address))
    act()
    has_begun.wait()
    while True:
        act()


def main(address: str, ways: Sequence[str]) -> None:
    """Acts until it is killed."""
    has_begun = threading.Barrier(len(ways) + 1)
    for way in ways:
        threading.Thread(target=_act, args=(way, address, has_begun)).start()
    has_begun.wait()
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
