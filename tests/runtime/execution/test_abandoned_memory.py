from neurald.hal.memory.pool import HostMemory, SharedMemory
from neurald.hal.model.request import Request
from neurald.runtime.execution.abandoned_memory import mark_abandoned


def test_shared_memory_is_marked() -> None:
    shared, others = SharedMemory.create(64), (SharedMemory.create(64), HostMemory(bytearray(64)))
    mark_abandoned(Request(inputs=(), outputs=(), pools=(HostMemory(bytearray(64)), shared)))
    assert shared.is_abandoned
    assert not others[0].is_abandoned
